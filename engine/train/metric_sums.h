#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/train/rank_group.h"
#include "engine/train/training_state.h"
#include "engine/train/trial.h"

namespace dtrain {

/// Reduces metrics over batches, in double. Those on a GPU are summed there
/// and come to the host all at once, when they are asked for. Accepts an
/// undefined tensor as "not measured". One thread.
class MetricSums {
 public:
  /// `reductions` of metrics that are not means; with `last_only`, a metric is
  /// what it was in the last batch.
  explicit MetricSums(bool last_only = false,
                      std::map<std::string, Reduction> reductions = {})
      : last_only_(last_only), reductions_(std::move(reductions)) {}

  /// One batch's metrics, weighted in means. Throws Error(kFailed) for a value
  /// that is not one number.
  void Add(const Metrics& metrics, double weight);

  /// Only asks the device to fold one batch's metrics in, of weight 1, as a
  /// CUDA graph replays it; gives their names. Throws Error(kFailed) for values
  /// that are not one number, not on `device`, or new.
  std::vector<std::string> Capture(const Metrics& metrics,
                                   torch::Device device);
  /// Metrics of these names were folded in once more by the device.
  void CountReplay(const std::vector<std::string>& names);
  /// Sums values of `device` on it even if that is the CPU.
  void KeepOn(torch::Device device) { kept_on_ = device; }

  bool empty() const { return entries_.empty(); }
  /// The reduced values by name, in the order of names.
  MetricValues Values();
  void Clear();

  /// Takes out what only the last batch measured since Clear, of the metrics
  /// that other batches do not have: the mean loss of an epoch, at its end.
  MetricSums TakeOccasional();
  /// The metrics that were measured since Clear, or that some batch has not
  /// measured.
  std::set<std::string> Names() const;
  /// The metrics that some batch has not measured.
  const std::set<std::string>& occasional() const { return occasional_; }

  /// Makes the sums of every rank those of all; of a metric of the last batch,
  /// that of the first rank that has it. Collective.
  void Merge(RankGroup& ranks);

  /// For checkpoints.
  std::map<std::string, MetricSum> Save();
  void Load(const std::map<std::string, MetricSum>& sums);

 private:
  struct Entry {
    Reduction reduction = Reduction::kMean;
    MetricSum sum;
    std::int64_t since = 0;  // the batch that measured it first
  };
  // What is not yet in the sum of an entry: a double on the device that stays
  // where it is, since a graph may know it by its address.
  struct OnDevice {
    torch::Tensor value;
    bool is_pending = false;
  };

  Reduction ReductionOf(const std::string& name) const;
  Entry& EntryOf(const std::string& name);
  OnDevice& OnDeviceOf(const std::string& name, torch::Device device);
  // Folds one batch's value into what there is of the metric.
  double Fold(const Entry& entry, double value, double weight) const;
  void FoldOnDevice(OnDevice& to, Reduction reduction,
                    const torch::Tensor& value, double weight) const;
  void Count(Entry& entry, double weight) const;
  // Brings what is on the device to the host, in one copy.
  void Fetch();
  void Fetch(Entry& entry, OnDevice& one, double value) const;

  bool last_only_;
  std::optional<torch::Device> kept_on_;
  std::map<std::string, Reduction> reductions_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, OnDevice> on_device_;
  std::set<std::string> occasional_;  // undefined in some batch
  std::int64_t batches_ = 0;
};

/// `tensor`, a metric called `name`, must be one number; throws Error(kFailed).
void CheckIsNumber(const std::string& name, const torch::Tensor& tensor);

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/train/training_state.h"
#include "engine/train/trial.h"

namespace dtrain {

class RankGroup;

/// Reduces metrics over batches, in double. Values on a GPU are summed there
/// and copied to the host all at once when they are needed. Undefined tensors
/// mean "not measured". Not thread-safe.
class MetricSums {
 public:
  /// `reductions`: by metric, where it is not the mean. With `last_only`, a
  /// metric is its value in the last batch.
  explicit MetricSums(bool last_only = false,
                      std::map<std::string, Reduction> reductions = {})
      : last_only_(last_only), reductions_(std::move(reductions)) {}

  /// Adds one batch's metrics; `weight` applies to means. Throws Error(kFailed)
  /// for a value that is not a single number.
  void Add(const Metrics& metrics, double weight);

  /// Issues only the device work that adds one batch's metrics with weight 1,
  /// for a CUDA graph to replay; returns their names. Throws Error(kFailed) for
  /// values that are not a single number, not on `device`, or new.
  std::vector<std::string> Capture(const Metrics& metrics,
                                   torch::Device device);
  /// Records that a replay has added metrics of these names.
  void CountReplay(const std::vector<std::string>& names);
  /// Sums values of `device` on the device even if it is the CPU.
  void KeepOn(torch::Device device) { kept_on_ = device; }

  bool empty() const { return entries_.empty(); }
  /// True if values are on a device, so that reading them waits for it.
  bool is_on_device() const;
  /// Removes and returns the sums since Clear, without waiting for the device.
  MetricSums Drain();
  /// Copies the values of all these sums to the host at once.
  static void Fetch(std::span<MetricSums* const> all);
  /// Reduced values, sorted by name.
  MetricValues Values();
  void Clear();

  /// Removes and returns the values measured by the last batch only, of the
  /// metrics that other batches do not have: at the end of an epoch, for
  /// example, its mean loss.
  MetricSums DrainOccasional();
  /// Metrics measured since Clear, or missing in some batch.
  std::set<std::string> Names() const;
  /// Metrics missing in some batch.
  const std::set<std::string>& occasional() const { return occasional_; }

  /// Reduces over all ranks; afterwards all ranks have the same sums. A metric
  /// of the last batch is taken from the first rank that has it. Collective.
  void Merge(RankGroup& ranks);

  /// State for checkpoints.
  std::map<std::string, MetricSum> Save();
  void Load(const std::map<std::string, MetricSum>& sums);

 private:
  struct Entry {
    Reduction reduction = Reduction::kMean;
    MetricSum sum;
    std::int64_t since = 0;  // first batch that measured it
  };
  // Part of an entry that is not in its sum yet: a double on the device whose
  // address never changes, because a graph may refer to it, unless it was
  // taken.
  struct OnDevice {
    torch::Tensor value;
    bool is_pending = false;
    bool is_taken = false;
  };

  Reduction FindReduction(const std::string& name) const;
  Entry& GetEntry(const std::string& name);
  OnDevice& GetOnDevice(const std::string& name, torch::Device device);
  // Combines one batch's value with the entry.
  double Fold(const Entry& entry, double value, double weight) const;
  void FoldOnDevice(OnDevice& to, Reduction reduction,
                    const torch::Tensor& value, double weight) const;
  void Count(Entry& entry, double weight) const;
  void Fetch();
  void Fetch(Entry& entry, OnDevice& one, double value) const;

  bool last_only_;
  std::optional<torch::Device> kept_on_;
  std::map<std::string, Reduction> reductions_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, OnDevice> on_device_;
  std::set<std::string> occasional_;  // missing in some batch
  std::int64_t batches_ = 0;
};

/// Throws Error(kFailed) if `tensor`, a metric called `name`, is not a single
/// number.
void CheckIsNumber(const std::string& name, const torch::Tensor& tensor);

/// Appends the learning rates. One that the trial reports itself takes
/// precedence.
void AppendMissing(MetricValues& metrics, const MetricValues& rates);

/// Names of the metrics, or "none".
std::string MetricNames(const MetricValues& metrics);

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <map>
#include <string>

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

  bool empty() const { return entries_.empty(); }
  /// The reduced values by name, in the order of names.
  MetricValues Values();
  void Clear() { entries_.clear(); }

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
    torch::Tensor on_device;  // what is not yet in `sum`
  };

  Entry& EntryOf(const std::string& name);
  // Folds one batch's value into what there is of the metric.
  double Fold(const Entry& entry, double value, double weight) const;
  torch::Tensor FoldOnDevice(const Entry& entry, const torch::Tensor& value,
                             double weight) const;
  // Brings what is on the device to the host, in one copy.
  void Fetch();

  bool last_only_;
  std::map<std::string, Reduction> reductions_;
  std::map<std::string, Entry> entries_;
};

/// `tensor`, a metric called `name`, must be one number; throws Error(kFailed).
void CheckIsNumber(const std::string& name, const torch::Tensor& tensor);

}  // namespace dtrain

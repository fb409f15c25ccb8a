// One validation: all batches, then the metrics over the whole set. The call is
// collective: each rank evaluates its part. Metrics that are sums or means are
// added up batch by batch, then over ranks (MetricSums). A metric over the
// whole set, such as AUC, has no sum: its inputs of all batches and ranks are
// kept and gathered, in the order of ranks (Gathered). Parts may differ by one
// batch; a rank that has fewer still goes through the loop as often, so that
// `keep_going` is called equally often on all ranks.

#include "engine/train/validation.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/train/device.h"
#include "engine/train/metric_sums.h"
#include "engine/train/tensor_file.h"

namespace dtrain {

namespace {

// Outputs of all batches for the metrics of the whole set.
class Gathered {
 public:
  explicit Gathered(const std::map<std::string, Reducer>& reducers) {
    for (const auto& [name, reducer] : reducers) {
      const auto* whole = std::get_if<WholeSet>(&reducer);
      if (whole == nullptr) continue;
      metrics_.emplace_back(name, *whole);
      for (const std::string& input : whole->inputs) parts_[input];
    }
  }

  // Removes the inputs of such metrics from `metrics`.
  void ExtractInputs(Metrics& metrics) {
    for (auto& [name, tensors] : parts_) {
      const auto found = metrics.find(name);
      if (found == metrics.end() || !found->second.defined()) {
        throw Error(ErrorKind::kFailed,
                    "EvaluateBatch returned no '" + name +
                        "', which a reducer of the whole set needs");
      }
      tensors.push_back(found->second.dim() == 0 ? found->second.unsqueeze(0)
                                                 : std::move(found->second));
      metrics.erase(found);
    }
  }

  // Appends the outputs of the other ranks, in the order of ranks.
  void Merge(RankGroup& ranks) {
    if (ranks.is_alone() || parts_.empty()) return;
    NamedTensors mine;
    for (const auto& [name, tensors] : parts_) {
      if (!tensors.empty()) mine.emplace_back(name, torch::cat(tensors));
    }
    const auto files = ranks.Gather(TensorFile(mine));
    for (auto& [name, tensors] : parts_) tensors.clear();
    for (const std::string& file : files) {
      for (auto& [name, tensor] :
           ReadTensors(std::as_bytes(std::span(file)), "a rank's outputs")) {
        parts_[name].push_back(std::move(tensor));
      }
    }
  }

  void ComputeInto(MetricValues& values) {
    for (const auto& [name, whole] : metrics_) {
      std::vector<torch::Tensor> inputs;
      for (const std::string& input : whole.inputs) {
        if (parts_[input].empty()) {
          throw Error(ErrorKind::kFailed,
                      "no sample of the set could be read, so there is no '" +
                          name + "'");
        }
        inputs.push_back(torch::cat(parts_[input]));
      }
      values.emplace_back(name, whole.compute(inputs));
    }
  }

 private:
  std::vector<std::pair<std::string, WholeSet>> metrics_;
  std::map<std::string, std::vector<torch::Tensor>> parts_;
};

std::map<std::string, Reduction> Reductions(
    const std::map<std::string, Reducer>& reducers) {
  std::map<std::string, Reduction> reductions;
  for (const auto& [name, reducer] : reducers) {
    if (const auto* reduction = std::get_if<Reduction>(&reducer)) {
      reductions.emplace(name, *reduction);
    }
  }
  return reductions;
}

}  // namespace

std::optional<MetricValues> RunValidation(
    Trial& trial, DataSource& source, torch::Device device,
    std::int64_t max_batches, const std::function<bool()>& keep_going,
    RankGroup& ranks) {
  const std::map<std::string, Reducer> reducers = trial.Reducers();
  Gathered gathered(reducers);
  MetricSums sums(/*last_only=*/false, Reductions(reducers));
  DeviceCopy to_device(device);
  source.Seek(0);
  std::int64_t batches = source.BatchesPerEpoch();
  if (max_batches > 0) batches = std::min(batches, max_batches);
  // Ranks may differ by one batch, but none runs ahead.
  const std::int64_t count = ranks.Most(batches);
  for (std::int64_t i = 0; i < count; ++i) {
    if (!keep_going()) return std::nullopt;
    if (i >= batches) continue;
    // Read outside of the guard: a source may keep tensors that are trained on.
    const Batch batch = to_device(source.Read());
    // Empty if none of the batch's images could be read.
    if (batch.data.defined() && batch.size() == 0) continue;
    const c10::InferenceMode inference;
    Metrics metrics = trial.EvaluateBatch(batch);
    gathered.ExtractInputs(metrics);
    // A batch without data counts as one sample.
    const std::int64_t samples = std::max<std::int64_t>(batch.size(), 1);
    sums.Add(metrics, static_cast<double>(samples));
  }
  const c10::InferenceMode inference;
  sums.Merge(ranks);
  gathered.Merge(ranks);
  MetricValues values = sums.Values();
  gathered.ComputeInto(values);
  return values;
}

}  // namespace dtrain

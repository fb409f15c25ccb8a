#include "engine/train/metric_sums.h"

#include <cmath>
#include <limits>
#include <sstream>
#include <vector>

#include "engine/base/error.h"

namespace dtrain {

void CheckIsNumber(const std::string& name, const torch::Tensor& tensor) {
  if (tensor.numel() == 1 && !tensor.is_complex()) return;
  std::ostringstream shape;
  shape << tensor.scalar_type() << tensor.sizes();
  throw Error(ErrorKind::kFailed, "metric '" + name + "' is " + shape.str() +
                                      "; return one number for it, such as "
                                      "its mean over the batch");
}

MetricSums::Entry& MetricSums::EntryOf(const std::string& name) {
  const auto [found, is_new] = entries_.try_emplace(name);
  Entry& entry = found->second;
  if (!is_new) return entry;
  const auto reduction = reductions_.find(name);
  if (reduction != reductions_.end()) entry.reduction = reduction->second;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (entry.reduction == Reduction::kMin) entry.sum.total = kInfinity;
  if (entry.reduction == Reduction::kMax) entry.sum.total = -kInfinity;
  return entry;
}

double MetricSums::Fold(const Entry& entry, double value, double weight) const {
  if (last_only_) return value;
  const double total = entry.sum.total;
  switch (entry.reduction) {
    case Reduction::kMean:
      return total + value * weight;
    case Reduction::kSum:
      return total + value;
    // NaN stays, as it does on a device.
    case Reduction::kMin:
      return value < total || std::isnan(value) ? value : total;
    case Reduction::kMax:
      return value > total || std::isnan(value) ? value : total;
  }
  return value;
}

torch::Tensor MetricSums::FoldOnDevice(const Entry& entry,
                                       const torch::Tensor& value,
                                       double weight) const {
  const torch::Tensor one = value.detach().reshape({}).to(torch::kDouble);
  const torch::Tensor& before = entry.on_device;
  if (last_only_) return one.clone();
  switch (entry.reduction) {
    case Reduction::kMean:
      return before.defined() ? before.add(one, weight) : one * weight;
    case Reduction::kSum:
      return before.defined() ? before.add(one) : one.clone();
    case Reduction::kMin:
      return before.defined() ? torch::minimum(before, one) : one.clone();
    case Reduction::kMax:
      return before.defined() ? torch::maximum(before, one) : one.clone();
  }
  return one;
}

void MetricSums::Add(const Metrics& metrics, double weight) {
  for (const auto& [name, value] : metrics) {
    if (!value.defined()) continue;
    CheckIsNumber(name, value);
    Entry& entry = EntryOf(name);
    if (value.device().is_cpu()) {
      // Reading it costs less than an operation on it.
      entry.sum.total = Fold(entry, value.item<double>(), weight);
    } else {
      entry.on_device = FoldOnDevice(entry, value, weight);
    }
    entry.sum.weight = last_only_ ? 1 : entry.sum.weight + weight;
  }
}

void MetricSums::Fetch() {
  std::vector<Entry*> pending;
  std::vector<torch::Tensor> values;
  for (auto& [name, entry] : entries_) {
    if (!entry.on_device.defined()) continue;
    pending.push_back(&entry);
    values.push_back(std::move(entry.on_device));
    entry.on_device = torch::Tensor();
  }
  if (pending.empty()) return;
  const torch::Tensor host = torch::stack(values).to(torch::kCPU);
  for (std::size_t i = 0; i < pending.size(); ++i) {
    // It is weighted already.
    const double value = host.const_data_ptr<double>()[i];
    pending[i]->sum.total = Fold(*pending[i], value, /*weight=*/1);
  }
}

MetricValues MetricSums::Values() {
  Fetch();
  MetricValues values;
  values.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) {
    const bool is_mean = !last_only_ && entry.reduction == Reduction::kMean;
    values.emplace_back(name,
                        entry.sum.total / (is_mean ? entry.sum.weight : 1.0));
  }
  return values;
}

void MetricSums::Merge(RankGroup& ranks) {
  if (ranks.is_alone()) return;
  // In the order of ranks, so that all of them come to the same bits.
  const auto texts = ranks.Gather(SumsToJson(Save()).dump());
  entries_.clear();
  for (const std::string& text : texts) {
    for (const auto& [name, sum] : SumsFromJson(nlohmann::json::parse(text))) {
      const bool is_first = !entries_.contains(name);
      Entry& entry = EntryOf(name);
      if (last_only_ && !is_first) continue;
      // It is weighted already.
      entry.sum.total = Fold(entry, sum.total, /*weight=*/1);
      entry.sum.weight += sum.weight;
    }
  }
}

std::map<std::string, MetricSum> MetricSums::Save() {
  Fetch();
  std::map<std::string, MetricSum> sums;
  for (const auto& [name, entry] : entries_) sums.emplace(name, entry.sum);
  return sums;
}

void MetricSums::Load(const std::map<std::string, MetricSum>& sums) {
  entries_.clear();
  for (const auto& [name, sum] : sums) EntryOf(name).sum = sum;
}

}  // namespace dtrain

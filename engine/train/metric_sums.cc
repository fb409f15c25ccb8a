#include "engine/train/metric_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/train/rank_group.h"

// Metrics of a batch are tensors on the device; reading one waits for all work
// before it. On a GPU they are therefore reduced there, in double, and copied
// to the host once per report. The tensor of a metric keeps its address, so
// that a CUDA graph can update it. On the CPU, values are read and reduced on
// the host at once, unless KeepOn says otherwise.

namespace dtrain {

namespace {

// Neutral element of the reduction.
double NeutralElement(Reduction reduction) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (reduction == Reduction::kMin) return kInfinity;
  return reduction == Reduction::kMax ? -kInfinity : 0;
}

}  // namespace

void CheckIsNumber(const std::string& name, const torch::Tensor& tensor) {
  if (tensor.numel() == 1 && !tensor.is_complex()) return;
  std::ostringstream shape;
  shape << tensor.scalar_type() << tensor.sizes();
  throw Error(ErrorKind::kFailed, "metric '" + name + "' is " + shape.str() +
                                      "; return one number for it, such as "
                                      "its mean over the batch");
}

Reduction MetricSums::FindReduction(const std::string& name) const {
  const auto found = reductions_.find(name);
  return found == reductions_.end() ? Reduction::kMean : found->second;
}

MetricSums::Entry& MetricSums::GetEntry(const std::string& name) {
  const auto [found, is_new] = entries_.try_emplace(name);
  Entry& entry = found->second;
  if (!is_new) return entry;
  entry.reduction = FindReduction(name);
  entry.since = batches_;
  entry.sum.total = NeutralElement(entry.reduction);
  return entry;
}

MetricSums::OnDevice& MetricSums::GetOnDevice(const std::string& name,
                                              torch::Device device) {
  OnDevice& one = on_device_[name];
  if (!one.value.defined()) {
    one.value = torch::full({}, NeutralElement(FindReduction(name)),
                            torch::TensorOptions(device).dtype(torch::kDouble));
  }
  return one;
}

double MetricSums::Fold(const Entry& entry, double value, double weight) const {
  if (last_only_) return value;
  const double total = entry.sum.total;
  switch (entry.reduction) {
    case Reduction::kMean:
      return total + value * weight;
    case Reduction::kSum:
      return total + value;
    // NaN propagates, as on the device.
    case Reduction::kMin:
      return value < total || std::isnan(value) ? value : total;
    case Reduction::kMax:
      return value > total || std::isnan(value) ? value : total;
  }
  return value;
}

void MetricSums::FoldOnDevice(OnDevice& to, Reduction reduction,
                              const torch::Tensor& value, double weight) const {
  const torch::NoGradGuard no_grad;
  // Each operation below converts the value to double itself, as exactly as an
  // operation of its own would: one launch for each metric.
  const torch::Tensor one = value.detach().reshape({});
  if (last_only_) {
    to.value.copy_(one);
    return;
  }
  switch (reduction) {
    case Reduction::kMean:
      to.value.add_(one, weight);
      return;
    case Reduction::kSum:
      to.value.add_(one);
      return;
    case Reduction::kMin:
      torch::minimum_out(to.value, to.value, one);
      return;
    case Reduction::kMax:
      torch::maximum_out(to.value, to.value, one);
      return;
  }
}

void MetricSums::Count(Entry& entry, double weight) const {
  entry.sum.weight = last_only_ ? 1 : entry.sum.weight + weight;
}

void MetricSums::Add(const Metrics& metrics, double weight) {
  ++batches_;
  for (const auto& [name, value] : metrics) {
    if (!value.defined()) {
      occasional_.insert(name);
      continue;
    }
    CheckIsNumber(name, value);
    Entry& entry = GetEntry(name);
    if (value.device().is_cpu() && value.device() != kept_on_) {
      // Reading the value costs less than an operation on it.
      entry.sum.total = Fold(entry, value.item<double>(), weight);
    } else {
      OnDevice& one = GetOnDevice(name, value.device());
      FoldOnDevice(one, entry.reduction, value, weight);
      one.is_pending = true;
    }
    Count(entry, weight);
  }
}

std::vector<std::string> MetricSums::Capture(const Metrics& metrics,
                                             torch::Device device) {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) {
    if (!value.defined()) continue;
    CheckIsNumber(name, value);
    const auto found = on_device_.find(name);
    if (value.device() != device || found == on_device_.end()) {
      throw Error(ErrorKind::kFailed, "metric '" + name +
                                          "' is not computed on the device, or "
                                          "not in every batch");
    }
    FoldOnDevice(found->second, FindReduction(name), value, /*weight=*/1);
    names.push_back(name);
  }
  return names;
}

void MetricSums::CountReplay(const std::vector<std::string>& names) {
  ++batches_;
  for (const std::string& name : names) {
    Count(GetEntry(name), /*weight=*/1);
    on_device_.at(name).is_pending = true;
  }
}

bool MetricSums::is_on_device() const {
  return std::ranges::any_of(
      on_device_, [](const auto& one) { return one.second.is_pending; });
}

MetricSums MetricSums::Drain() {
  MetricSums taken(last_only_, reductions_);
  std::vector<OnDevice*> to;
  std::vector<torch::Tensor> values;
  for (auto& [name, one] : on_device_) {
    if (!one.is_pending) continue;
    to.push_back(&taken.on_device_[name]);
    values.push_back(one.value);
  }
  if (!values.empty()) {
    // One copy on the device for all metrics, which does not wait; the sums
    // themselves continue from their neutral elements at the same addresses.
    const std::vector<torch::Tensor> copies = torch::stack(values).unbind();
    for (std::size_t i = 0; i < to.size(); ++i) {
      *to[i] = {.value = copies[i], .is_pending = true, .is_taken = true};
    }
  }
  for (auto& [name, one] : on_device_) {
    if (!std::exchange(one.is_pending, false)) continue;
    one.value.fill_(NeutralElement(FindReduction(name)));
  }
  taken.entries_ = std::exchange(entries_, {});
  return taken;
}

void MetricSums::Fetch() {
  MetricSums* const self = this;
  Fetch(std::span(&self, 1));
}

void MetricSums::Fetch(std::span<MetricSums* const> all) {
  struct Pending {
    MetricSums* sums;
    const std::string* name;
    OnDevice* one;
  };
  std::vector<Pending> pending;
  std::vector<torch::Tensor> values;
  for (MetricSums* const sums : all) {
    for (auto& [name, one] : sums->on_device_) {
      if (!one.is_pending) continue;
      pending.push_back({.sums = sums, .name = &name, .one = &one});
      values.push_back(one.value);
    }
  }
  if (pending.empty()) return;
  // The one wait for the device, for all reports together.
  const torch::Tensor host = torch::stack(values).to(torch::kCPU);
  const double* value = host.const_data_ptr<double>();
  for (const Pending& one : pending) {
    one.sums->Fetch(one.sums->GetEntry(*one.name), *one.one, *value++);
  }
}

// `value` was read from the device and is weighted already.
void MetricSums::Fetch(Entry& entry, OnDevice& one, double value) const {
  entry.sum.total = Fold(entry, value, /*weight=*/1);
  one.is_pending = false;
  if (!one.is_taken) one.value.fill_(NeutralElement(entry.reduction));
}

MetricSums MetricSums::DrainOccasional() {
  MetricSums taken(last_only_, reductions_);
  for (const std::string& name : occasional_) {
    const auto found = entries_.find(name);
    if (found == entries_.end() || found->second.since != batches_) continue;
    const auto on_device = on_device_.find(name);
    if (on_device != on_device_.end() && on_device->second.is_pending) {
      OnDevice& one = on_device->second;
      Fetch(found->second, one, one.value.item<double>());
    }
    taken.entries_.insert(entries_.extract(found));
  }
  return taken;
}

void MetricSums::Clear() {
  Fetch();
  entries_.clear();
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

std::set<std::string> MetricSums::Names() const {
  std::set<std::string> names = occasional_;
  for (const auto& [name, entry] : entries_) names.insert(name);
  return names;
}

void MetricSums::Merge(RankGroup& ranks) {
  if (ranks.is_alone()) return;
  // In the order of ranks, so that all ranks compute the same bits.
  const auto texts = ranks.Gather(SumsToJson(Save()).dump());
  entries_.clear();
  for (const std::string& text : texts) {
    for (const auto& [name, sum] : SumsFromJson(nlohmann::json::parse(text))) {
      // A rank may lack a metric that others measure only occasionally.
      if (sum.occasional) occasional_.insert(name);
      if (sum.weight == 0) continue;
      const bool is_first = !entries_.contains(name);
      Entry& entry = GetEntry(name);
      if (last_only_ && !is_first) continue;
      // Already weighted.
      entry.sum.total = Fold(entry, sum.total, /*weight=*/1);
      entry.sum.weight += sum.weight;
    }
  }
}

std::map<std::string, MetricSum> MetricSums::Save() {
  Fetch();
  std::map<std::string, MetricSum> sums;
  for (const auto& [name, entry] : entries_) sums.emplace(name, entry.sum);
  for (const std::string& name : occasional_) sums[name].occasional = true;
  return sums;
}

void MetricSums::Load(const std::map<std::string, MetricSum>& sums) {
  entries_.clear();
  for (const auto& [name, sum] : sums) {
    if (sum.occasional) occasional_.insert(name);
    if (sum.weight != 0) GetEntry(name).sum = sum;
  }
}

void AppendMissing(MetricValues& metrics, const MetricValues& rates) {
  for (const auto& rate : rates) {
    if (FindMetric(metrics, rate.first) == nullptr) metrics.push_back(rate);
  }
}

std::string MetricNames(const MetricValues& metrics) {
  std::vector<std::string> names;
  for (const auto& metric : metrics) names.push_back(metric.first);
  return names.empty() ? "none" : Join(names, ", ");
}

}  // namespace dtrain

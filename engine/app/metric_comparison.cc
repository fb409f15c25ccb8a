// Comparison of the metrics of two trials, for `reproduce`.
//
// Values are compared bit by bit unless a tolerance is given: 0 and -0 differ,
// NaN equals NaN. The relative difference of a and b is |a - b| / max(|a|,
// |b|). Metrics match by kind, batches and name.

#include "engine/app/metric_comparison.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "engine/app/stores.h"
#include "engine/base/json.h"
#include "engine/base/length.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

using Key = std::tuple<MetricKind, std::int64_t, std::string>;

// Compares bits, because == treats 0 and -0 as equal and NaN as unequal to
// itself.
bool IsSame(double a, double b) {
  if (std::isnan(a) && std::isnan(b)) return true;
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

double RelativeDifference(double a, double b) {
  const double scale = std::max(std::abs(a), std::abs(b));
  const double difference = std::abs(a - b) / scale;
  if (scale == 0) return 0;  // 0 and -0
  return std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                : difference;
}

Key MakeKey(const MetricRow& row) { return {row.kind, row.batches, row.name}; }

std::map<Key, MetricRow> ReadMetrics(const Store& store, TrialId trial) {
  std::map<Key, MetricRow> metrics;
  store.ForEachMetric(
      {.experiment = trial.experiment, .trial = trial.number},
      [&](const MetricRow& row) { metrics.emplace(MakeKey(row), row); });
  return metrics;
}

// True if `row`, which only one trial has, is the mean of the other's reports
// at the ends of epochs: earlier versions merged the metrics of whole epochs
// into the next report. Removes those reports from `others`.
bool IsMeanOfEpochs(const MetricRow& row, std::map<Key, MetricRow>& others) {
  if (row.kind != MetricKind::kTraining) return false;
  std::vector<Key> epochs;
  double total = 0;
  for (const auto& [key, other] : others) {
    const bool is_earlier = other.kind == row.kind && other.name == row.name &&
                            other.batches < row.batches &&
                            other.epoch == std::floor(other.epoch);
    if (!is_earlier) continue;
    epochs.push_back(key);
    total += other.value;
  }
  if (epochs.empty()) return false;
  const double mean = total / static_cast<double>(epochs.size());
  const double last = others.at(epochs.back()).value;
  if (!IsSame(row.value, mean) && !IsSame(row.value, last)) return false;
  for (const Key& key : epochs) others.erase(key);
  return true;
}

}  // namespace

bool MetricComparison::AreEqual(double tolerance) const {
  if (missing > 0 || compared == 0) return false;
  return tolerance > 0 ? largest <= tolerance : different == 0;
}

std::string MetricComparison::Text(double tolerance) const {
  const std::string name = "trial " + ToString(trial);
  const std::string other = ToString(source);
  std::string lacking;
  if (missing > 0) {
    lacking =
        "; " + CountText(missing, "metric") + " present in only one of them";
  }
  if (compared == 0) return name + " has no metric in common with " + other;
  if (different == 0) {
    return name + " has the same " + CountText(compared, "metric") + " as " +
           other + ", bit for bit" + lacking;
  }
  std::string text =
      name + " differs from " + other + " in " + std::to_string(different) +
      " of " + CountText(compared, "metric") +
      "; the largest relative difference is " + FormatNumber(largest);
  if (where) {
    text += ", of " + std::string(MetricKindName(where->kind)) + " " +
            where->name + " at " +
            PositionText({where->batches, where->epoch}, units) + ": " +
            FormatNumber(value) + " instead of " + FormatNumber(where->value);
  }
  if (AreEqual(tolerance)) text += "; within --tolerance";
  return text + lacking;
}

nlohmann::json MetricComparison::Json(double tolerance) const {
  nlohmann::json at;
  if (where) {
    at = {{"kind", MetricKindName(where->kind)},
          {"batches", where->batches},
          {"name", where->name},
          {"expected", JsonNumber(where->value)},
          {"value", JsonNumber(value)}};
    AddLength(units.counted, at);
  }
  return {{"source", ToString(source)},
          {"trial", ToString(trial)},
          {"equal", AreEqual(tolerance)},
          {"tolerance", tolerance},
          {"metrics", compared},
          {"different", different},
          {"missing", missing},
          {"largest_difference", JsonNumber(largest)},
          {"largest_at", at}};
}

MetricComparison CompareMetrics(const Store& store, TrialId source,
                                TrialId trial) {
  MetricComparison result{.source = source,
                          .trial = trial,
                          .units = FindUnits(store, source.experiment)};
  const auto expected = ReadMetrics(store, source);
  auto found = ReadMetrics(store, trial);
  std::int64_t last = -1;
  std::vector<MetricRow> unmatched;
  for (const auto& [key, row] : expected) {
    last = std::max(last, row.batches);
    const auto other = found.find(key);
    if (other == found.end()) {
      unmatched.push_back(row);
      continue;
    }
    ++result.compared;
    const double value = other->second.value;
    found.erase(other);
    if (IsSame(row.value, value)) continue;
    ++result.different;
    const double difference = RelativeDifference(row.value, value);
    if (result.where && difference <= result.largest) continue;
    result.largest = difference;
    result.where = row;
    result.value = value;
  }
  for (const MetricRow& row : unmatched) {
    if (IsMeanOfEpochs(row, found)) {
      ++result.compared;
    } else {
      ++result.missing;
    }
  }
  for (const auto& [key, row] : found) {
    if (row.batches <= last) ++result.missing;
  }
  return result;
}

}  // namespace dtrain

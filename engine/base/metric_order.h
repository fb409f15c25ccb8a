#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace dtrain {

/// Metric values of one report, in the trial's order. They may be NaN or
/// infinite.
using MetricValues = std::vector<std::pair<std::string, double>>;

/// Updates `metrics` with a report, which may contain only some of the metrics.
inline void UpdateMetrics(MetricValues& metrics, const MetricValues& report) {
  for (const auto& [name, value] : report) {
    const auto old =
        std::ranges::find(metrics, name, &MetricValues::value_type::first);
    if (old == metrics.end()) {
      metrics.emplace_back(name, value);
    } else {
      old->second = value;
    }
  }
}

/// Sort key of a metric value: the lower the key, the better the value. Every
/// choice of a best value uses this order. Of equal values the one of the
/// lowest trial number is better, then the one of the fewest batches, so that
/// the choice does not depend on which trial was faster. REQUIRES: `value` is
/// not NaN.
constexpr double RankKey(double value, bool smaller_is_better) {
  return smaller_is_better ? value : -value;
}

/// True if `value` is better than `other`, not if they are equal.
constexpr bool IsBetter(double value, double other, bool smaller_is_better) {
  return RankKey(value, smaller_is_better) < RankKey(other, smaller_is_better);
}

}  // namespace dtrain

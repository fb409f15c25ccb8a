#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/base/length.h"
#include "engine/store/rows.h"

namespace dtrain {

class Store;

/// Differences between the metrics of two trials, matched by kind, batches and
/// name.
struct MetricComparison {
  TrialId source;
  TrialId trial;
  std::int64_t compared = 0;   // that both have
  std::int64_t different = 0;  // of those, not the same to the bit
  std::int64_t missing = 0;    // that one of them lacks
  double largest = 0;          // relative difference; infinite for NaN
  /// Metric with the largest difference, as in `source`; its value in `trial`.
  std::optional<MetricRow> where;
  double value = 0;
  Units units;  // of `source`

  /// True if no metric is missing and none differs by more than `tolerance`; 0
  /// requires equal bits. NaN equals NaN.
  bool AreEqual(double tolerance) const;
  /// Returns the result as a sentence.
  std::string Text(double tolerance) const;
  nlohmann::json Json(double tolerance) const;
};

/// Compares the metrics of `trial` with those of `source`, up to the last one
/// of `source`; later ones are ignored.
MetricComparison CompareMetrics(const Store& store, TrialId source,
                                TrialId trial);

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/base/length.h"
#include "engine/store/store.h"

namespace dtrain {

/// How the metrics of two trials differ, each told by its kind, batches and
/// name.
struct MetricComparison {
  TrialId source;
  TrialId trial;
  std::int64_t compared = 0;   // that both have
  std::int64_t different = 0;  // of those, not the same to the bit
  std::int64_t missing = 0;    // that one of them lacks
  double largest = 0;          // relative difference; infinite for NaN
  /// Where that is: what `source` has, and the value in `trial`.
  std::optional<MetricRow> where;
  double value = 0;
  Unit counted = Unit::kBatches;  // what its batches count

  /// Whether all of them are there and none differs by more than `tolerance`,
  /// 0 being equal to the bit. NaN is equal to NaN.
  bool AreEqual(double tolerance) const;
  /// In a sentence.
  std::string Text(double tolerance) const;
  nlohmann::json Json(double tolerance) const;
};

/// Compares what `trial` reported with what `source` did, up to the last of
/// `source`: what comes after that is not looked at.
MetricComparison CompareMetrics(const Store& store, TrialId source,
                                TrialId trial);

}  // namespace dtrain

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/analysis/importance.h"
#include "engine/base/length.h"

namespace dtrain {

class Store;
struct ExperimentDetail;
struct ExperimentRow;

/// The validation of a trial that speaks for it in a comparison.
struct ValuePlace {
  enum class Kind {
    kBest,    // its best by the searcher's metric
    kLast,    // its last
    kLength,  // that after `length`
  };
  Kind kind = Kind::kBest;
  double length = 0;  // in the unit of the searcher's max_length
};

/// Parses "best", "last" or a length ("300"). Throws Error(kUsage) that begins
/// with `option`.
ValuePlace ParseValuePlace(std::string_view option, const std::string& text);

/// A metric and its better direction.
struct MetricGoal {
  std::string metric;
  bool smaller_is_better = true;
};

/// Parses "loss:min", "speed:max", or the name of the searcher's metric, whose
/// direction is known. Throws Error(kUsage) that begins with `option` for
/// another name without a direction.
MetricGoal ParseMetricGoal(std::string_view option, const std::string& text,
                           const ExperimentRow& experiment);

/// The values of a validation metric that trials had at one place.
struct TrialValues {
  std::string metric;
  ValuePlace place;
  Unit unit = Unit::kBatches;             // of `place.length`
  std::map<std::int64_t, double> values;  // by number of the trial

  /// "at 80 batches", "at the best validation" or "at the last validation".
  std::string PlaceText() const;
};

/// Reads the values of `metric` of the trials in `selected` (increasing
/// numbers; null: all) that were validated at `place`, whatever became of them.
/// Without a place it is the greatest length at which a quarter of the trials
/// and at least 20 were validated; if there is none, that of the most trials.
/// Throws Error(kNotFound), with the metrics or the lengths that are recorded,
/// if the experiment has no validation metric of this name, or these trials
/// none at this length; no values if none of them has the metric.
TrialValues ReadTrialValues(
    const Store& store, const ExperimentDetail& experiment,
    const std::string& metric, const std::optional<ValuePlace>& place,
    const std::vector<std::int64_t>* selected = nullptr);

/// Reads the places on `axes` of the trials that have one of `values`.
std::vector<TrialOutcome> ReadOutcomes(const Store& store,
                                       std::int64_t experiment,
                                       const std::vector<SearchAxis>& axes,
                                       const TrialValues& values);

/// Number of outcomes whose value is finite.
std::size_t CountFinite(const std::vector<TrialOutcome>& outcomes);

}  // namespace dtrain

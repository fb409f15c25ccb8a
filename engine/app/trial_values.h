#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/analysis/importance.h"
#include "engine/app/stores.h"
#include "engine/base/length.h"
#include "engine/run/points.h"

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

/// What --group names: a hyperparameter, or this: the points of a search with
/// repeats.
inline constexpr std::string_view kPointGroup = "search.point";
/// Parses "hp.NAME" and, if there is one experiment, "points". Throws
/// Error(kUsage).
std::string ParseGroup(const std::string& text,
                       std::span<const Target> targets);
/// Returns the group of a trial; none if it does not have it.
std::optional<nlohmann::json> GroupValue(const TrialRow& trial,
                                         const std::string& group);
/// "--group: no trial has …".
std::string NoGroupText(const std::string& group);

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
  /// "best", "last" or {"batches": 80}.
  nlohmann::json PlaceJson() const;
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

/// Combines values of trials, by number, into those of the points of their
/// search, by number of the point (CombineRepeats). Values that are not finite
/// do not count; without another the point has NaN. Without repeats each trial
/// is a point.
std::map<std::int64_t, double> CombineByPoint(
    const std::map<std::int64_t, double>& trials, const Repeats& repeats);

/// The same without the trials that failed. `trials`: of the search, rows with
/// `id` and `state`.
template <typename Trial>
std::map<std::int64_t, double> CombineByPoint(
    std::map<std::int64_t, double> values, const std::vector<Trial>& trials,
    const Repeats& repeats) {
  if (repeats.count == 1) return values;
  for (const Trial& trial : trials) {
    if (!CountsForPoint(trial.state)) values.erase(trial.id.number);
  }
  return CombineByPoint(values, repeats);
}

/// Sorts trials of the experiment by `values` (by number): the best point
/// first, and of its trials the best; those without a value last. With repeats
/// a point has a value once all its repeats have ended, of those that did not
/// fail.
void SortByPoint(const ExperimentDetail& experiment,
                 const std::map<std::int64_t, double>& values,
                 std::vector<TrialRow>& trials);

/// Reads the places on `axes` of the points that have one of `values`.
std::vector<TrialOutcome> ReadOutcomes(const Store& store,
                                       const ExperimentDetail& experiment,
                                       const std::vector<SearchAxis>& axes,
                                       const TrialValues& values);

/// Number of outcomes whose value is finite.
std::size_t CountFinite(const std::vector<TrialOutcome>& outcomes);

}  // namespace dtrain

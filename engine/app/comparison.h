#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/app/stores.h"
#include "engine/app/trial_values.h"

namespace dtrain {

class Store;
class TrialSelection;

/// A value of one of the compared: JSON, null if it has none.
struct ComparedValue {
  nlohmann::json value;
  // From the baseline's value to this one; empty for the baseline itself and
  // where one of the two is not a finite number.
  std::optional<double> difference;
  std::optional<double> percent;  // of the baseline's value; empty if that is 0
  // Whether the difference is an improvement; empty if it is 0 or the better
  // direction is unknown.
  std::optional<bool> better;
};

/// One line of a comparison.
struct ComparedRow {
  std::string section;  // hyperparameters, configuration, metrics, …
  std::string name;
  std::vector<ComparedValue> values;  // of each target, in their order

  /// True if all values are equal.
  bool equal() const;
};

/// An experiment or trial in a comparison.
struct ComparedTarget {
  std::string id;    // "3" or "3.7"
  std::string name;  // of the experiment
  // The trial with the hyperparameters and metrics that are shown: the best one
  // of an experiment; empty if it has none.
  std::string trial;
  std::size_t trials = 1;  // selected ones, from which it was chosen
};

/// Several experiments and trials side by side.
struct TargetComparison {
  std::vector<ComparedTarget> targets;
  std::size_t baseline = 0;  // its index
  std::vector<ComparedRow> rows;
  std::vector<std::string> warnings;
};

/// Compares experiments and trials. Rows, in sections:
/// - hyperparameters: of the trial, or of the experiment's best trial;
/// - configuration: the effective configuration, nested names joined by dots;
/// - metrics: the validation metrics `metrics`, or all, at the best validation
///   of the trial or best trial;
/// - trials: their number by state (experiments only);
/// - effort: batches, epochs or records of all trials, slot hours, seconds;
/// - best so far: the best value of the searcher's metric after 10, 25, 50 and
///   100 % of the batches of the search that trained least (searches only).
/// Lengths in different units are compared in epochs, or not at all if one of
/// the experiments has none; a warning says so.
/// Only trials of `selection` are compared: the best trial of an experiment is
/// the best of these. Its wall time covers all trials, so it is left out.
/// Warns if the targets have different searcher's metrics. Throws
/// Error(kNotFound) for an unknown target, or a metric that none of them has.
TargetComparison CompareTargets(const Store& store,
                                const std::vector<Target>& targets,
                                std::size_t baseline,
                                const std::vector<std::string>& metrics,
                                const TrialSelection& selection);

/// Statistics of the trials that share one value of a hyperparameter.
struct TrialGroup {
  nlohmann::json value;  // null: the trials without this hyperparameter
  std::size_t trials = 0;
  double mean = 0;
  double deviation = 0;  // standard deviation (n - 1); 0 for a single trial
  double median = 0;
  double best = 0;
};

/// Groups of trials, compared at one place.
struct TrialGroups {
  std::vector<TrialGroup> groups;
  TrialValues values;        // of the first target, at the place
  std::size_t trials = 0;    // in the groups
  std::size_t left_out = 0;  // without a finite value there
};

/// Groups the selected trials of all targets by their value of the
/// hyperparameter `hparam` ("optimizer.lr" for a nested one), ordered by it,
/// with the values of `metric` at `place`; without one at the default length
/// (ReadTrialValues) of the experiment with the most trials, so that trials
/// that a search stopped early are not compared with others. Throws
/// Error(kNotFound) if no trial has the hyperparameter, or an experiment not
/// the metric or the length.
TrialGroups GroupTrials(const Store& store, const std::vector<Target>& targets,
                        const std::string& hparam, const MetricGoal& goal,
                        std::optional<ValuePlace> place,
                        const TrialSelection& selection);

}  // namespace dtrain

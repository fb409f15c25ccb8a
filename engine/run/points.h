#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/store/rows.h"
#include "engine/store/store.h"

namespace dtrain {

/// A point of a search with `searcher.repeats`: the results of its repeats.
struct PointRow {
  std::int64_t point = 0;       // its number, from 1
  std::int64_t trials = 0;      // its repeats so far
  std::int64_t unfinished = 0;  // of these
  std::vector<double> values;   // best validations of those that did not fail
  std::optional<double> value;  // by repeat_metric; none without values
  std::int64_t best_trial = 0;  // number of the best of them; 0: none
  BestValidation best;          // of that trial

  /// True if it has a value and no trial of it is to end. `repeats`: the number
  /// planned, of which there may be fewer if the search is `over`.
  bool IsKnown(std::int64_t repeats, bool over) const {
    return value && unfinished == 0 && (over || trials == repeats);
  }
  double mean() const;
  /// Sample standard deviation; NaN for fewer than two values.
  double sd() const;
  /// Returns what equal values of several repeats suggest; empty for others.
  std::string EqualityRemark() const;
};

/// The keys searcher.repeats and searcher.repeat_metric of an experiment.
struct Repeats {
  std::int64_t count = 1;
  std::string metric = "mean";
};
Repeats ReadRepeats(const nlohmann::json& config);

/// True if a repeat in this state counts for its point: it did not fail.
bool CountsForPoint(State state);

/// Returns the points of trials of one experiment, by number. Without repeats
/// each trial is one.
std::vector<PointRow> ListPoints(std::span<const TrialRow> trials,
                                 const std::string& repeat_metric,
                                 bool smaller_is_better);
std::vector<PointRow> ListPoints(std::span<const TrialRow> trials,
                                 const ExperimentDetail& experiment);

/// Returns the best of points all of whose `repeats` trials have ended, or of
/// all that have ended if the search is `over`. Of equal ones the first; null
/// if there is none.
const PointRow* FindBestPoint(const std::vector<PointRow>& points,
                              std::int64_t repeats, bool over,
                              bool smaller_is_better);
const PointRow* FindBestPoint(const std::vector<PointRow>& points,
                              const ExperimentDetail& experiment);

/// A trial whose hyperparameters `dtrain confirm` trained again.
struct ConfirmedTrial {
  std::string trial;    // "3.7"
  double reported = 0;  // its best value, as the search saw it
  PointRow point;       // of the experiment that confirms it

  /// Standard error of the mean; NaN for fewer than two values.
  double standard_error() const;
  /// "3.7 reported 0.0912, again 0.095 ± 0.0011 (standard error) of 5".
  std::string Text() const;
  nlohmann::json ToJson() const;
};

/// Name of the provenance of an experiment that confirms others.
inline constexpr char kConfirms[] = "confirms";

/// Returns what an experiment confirms, the best mean first; nothing if it was
/// not made by `dtrain confirm`. `trials`: of the experiment.
std::vector<ConfirmedTrial> ListConfirmed(std::span<const TrialRow> trials,
                                          const ExperimentDetail& experiment);

/// Records the best point of an experiment, of which there may be none. `over`:
/// see PointRow::IsKnown.
void SetBestPoint(const Store& store, StoreWriter& writer,
                  std::int64_t experiment, bool over);

/// "point 4, mean 0.3125 of 3 repeats, sd 0.0121"; "of 2 of 3 repeats" if one
/// has no value.
std::string PointText(const PointRow& point, const Repeats& repeats);

}  // namespace dtrain

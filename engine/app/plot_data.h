#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/analysis/statistics.h"
#include "engine/app/trial_selection.h"
#include "engine/app/trial_values.h"
#include "engine/report/plot.h"

namespace dtrain {

class Store;

/// Data that a plot needs from the store.
struct PlotQuery {
  std::vector<std::int64_t> experiments;
  // Validation metrics; empty: the searcher's metric of the first experiment.
  std::vector<std::string> metrics;
  // Validation that counts for a trial; empty: the length that most trials
  // reached, as ReadTrialValues does.
  std::optional<ValuePlace> place;
  std::string group;         // a hyperparameter, or empty
  bool validations = false;  // all of them, not only one of each trial
  TrialSelection selection = {};
};

/// Reads what the plots over searches show. Throws Error(kNotFound) for an
/// unknown experiment, metric, length or hyperparameter, Error(kUsage) for a
/// metric whose better direction is unknown. Experiments without the metric
/// have no values; `notes` says so.
PlotData ReadPlotData(const Store& store, const PlotQuery& query,
                      std::vector<std::string>& notes);

/// Horizontal axes of curves.
enum class CurveAxis { kBatches, kEpochs, kSeconds };

/// Horizontal axis for the lengths of several experiments.
struct LengthAxis {
  bool in_epochs = false;  // else what the experiments' batches count
  std::string label;       // "batches", or "batches or epochs" if they differ
  std::string note = {};   // on experiments that count different units
};

/// Chooses an axis. Experiments that count different units share the epochs, if
/// all know them and `convert` is true.
LengthAxis ChooseLengthAxis(const Store& store,
                            const std::vector<std::int64_t>& experiments,
                            bool convert);

/// Reads the named metrics, training and validation, of the selected trials of
/// an experiment, or of one trial. Throws Error(kNotFound) if one of them is
/// not recorded.
std::vector<TrialCurve> ReadCurves(const Store& store, std::int64_t experiment,
                                   std::optional<std::int64_t> trial,
                                   const std::vector<std::string>& metrics,
                                   CurveAxis axis,
                                   const TrialSelection& selection);

/// Returns PlotData that only ranks the selected trials of curves: by their
/// best validation, or by the hyperparameter `group`.
PlotData ReadRanks(const Store& store,
                   const std::vector<std::int64_t>& experiments,
                   const std::string& group, const TrialSelection& selection);

/// Like ReadRanks, with the lengths of the rungs.
PlotData ReadRungs(const Store& store,
                   const std::vector<std::int64_t>& experiments,
                   const TrialSelection& selection);

/// Returns the runs of a trial's process, in seconds since `start`: each from
/// the first start or its first report to its last report. The store does not
/// record when runs ended, and older stores not to which run a report belongs
/// (RunTimes). `reports`: also in seconds. Empty if the trial has not started.
std::vector<Span> ComputeRuns(const TrialRow& trial, RunTimes reports,
                              Timestamp start);

/// A run of a trial's process.
struct TrialRun {
  std::int64_t trial = 0;  // its number
  Span span;               // in seconds
  std::size_t lane = 0;    // runs in one lane do not overlap
};

/// Returns the runs of all trials. `reports`: of each trial, by number.
std::vector<TrialRun> PackRuns(const std::vector<TrialRow>& trials,
                               std::map<std::int64_t, RunTimes> reports,
                               Timestamp start);

/// Like ReadRanks, with the runs of the trials' processes (ComputeRuns).
PlotData ReadRuns(const Store& store,
                  const std::vector<std::int64_t>& experiments,
                  const TrialSelection& selection);

/// Returns at most 20 of the names, and the number of others.
std::string ListNames(const std::vector<std::string>& names);

/// Ends an error about an unknown metric: "; it has a, b".
std::string KnownMetrics(const std::vector<std::string>& names);

}  // namespace dtrain

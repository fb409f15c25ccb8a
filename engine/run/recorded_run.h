#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/experiment_config.h"
#include "engine/run/reporter.h"
#include "engine/run/search_results.h"
#include "engine/store/rows.h"

namespace dtrain {

/// Records of a run that were read from the store at one moment.
struct RunRecords {
  ExperimentRow experiment;           // with its current state
  std::vector<TrialRow> trials;       // all, likewise
  double seconds = 0;                 // time that the run has taken so far
  Unit counted = Unit::kBatches;      // what `batches` count
  std::optional<SlotWait> slot_wait;  // while no trial has a slot
  // New since the records before, or older ones again: events in their order,
  // and the values of each report one after the other.
  std::vector<SearcherEventRow> events;
  std::vector<MetricRow> metrics;
};

/// Records that are looked up only if an event needs them.
struct RunLookups {
  /// Returns the last lines of the log of a trial that failed.
  std::function<std::vector<std::string>(TrialId trial)> last_lines;
  /// Returns the position of a checkpoint.
  std::function<ReportedAt(const std::string& uuid)> checkpoint_at;
};

/// Returns what is known of a run by its records, its units without those that
/// its reports have shown.
RunInfo MakeRunInfo(const ExperimentRow& experiment,
                    const ExperimentConfig& config);

/// A run of another process, computed from its records: passes to a Reporter
/// the events that the run itself would, as far as they are recorded, and has
/// the same status, except for the number of slots, which is not recorded.
/// Pure. One thread.
class RecordedRun {
 public:
  RecordedRun(const ExperimentRow& experiment, const ExperimentConfig& config);

  /// The first call begins the report: it tells the state of the run, not its
  /// past. Later calls report the changes since.
  void Apply(const RunRecords& records, const RunLookups& lookups,
             Reporter& reporter);

  /// Returns "experiment 3 is RUNNING: 2 trials run, 1 ended; best so far …".
  std::string StateText(const RunRecords& records) const;

  const RunInfo& info() const { return info_; }
  const RunStatus& status() const { return status_; }
  /// Number of the last searcher event that was applied.
  std::int64_t last_event() const { return last_event_; }
  /// True if this trial may have reported since its records before.
  bool MayHaveReports(const TrialRow& trial) const;
  /// Returns the batches above which its reports of this kind are still to be
  /// read; −1: all.
  std::int64_t ReadUntil(const TrialRow& trial, MetricKind kind) const;
  /// Returns the searcher's metric at the validations that a trial had reported
  /// since it ran first under observation, by batches.
  std::vector<double> History(TrialId trial) const;

 private:
  struct Position {
    std::int64_t run = 0;
    std::int64_t batches = -1;
  };
  // State of a trial that runs or ran since the first call.
  struct Trial {
    TrialRow row;
    std::map<MetricKind, Position> reported;
    std::map<MetricKind, MetricValues> values;
    std::map<std::int64_t, double> history;
    std::int64_t batches_per_epoch = 0;  // 0: unknown
  };
  struct Report;

  void Begin(const RunRecords& records, Reporter& reporter);
  void ApplyEvents(const std::vector<SearcherEventRow>& events);
  void ApplyStart(const TrialRow& row, const RunLookups& lookups,
                  Reporter& reporter);
  void ApplyReports(const std::vector<MetricRow>& rows, Reporter* reporter);
  void ApplyReport(const Report& report, Reporter* reporter);
  void ApplyEnd(const TrialRow& row, State before, const RunLookups& lookups,
                Reporter& reporter);
  void SetStatus(const RunRecords& records);
  TrialStatus MakeStatus(const TrialRow& row);

  RunInfo info_;
  Rungs rungs_;
  RunStatus status_;
  bool began_ = false;
  std::int64_t last_event_ = 0;
  std::optional<double> best_;  // the best validation so far
  std::map<std::int64_t, Trial> trials_;
  // Lengths of the operations that a trial has not completed.
  std::map<std::int64_t, std::deque<std::int64_t>> lengths_;
};

}  // namespace dtrain

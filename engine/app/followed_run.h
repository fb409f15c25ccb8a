#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/report/live_display.h"
#include "engine/run/recorded_run.h"
#include "engine/store/rows.h"

namespace dtrain {

class Reporter;
class Store;

/// Distinguishes an experiment whose runner died from one whose runner has not
/// locked it yet: a new runner does that only after recording it.
class SettledCheck {
 public:
  /// True once the experiment has ended, is paused, or has been INTERRUPTED for
  /// a second and in five calls: while the machine pauses, time passes in which
  /// no runner can start. `row` has its current state; `now` is monotonic.
  bool IsSettled(const ExperimentRow& row, Duration now);

 private:
  std::optional<Duration> interrupted_;
  int calls_ = 0;  // since then
};

/// Follows an experiment that another process runs, from the store alone, in
/// short reads. One thread.
class FollowedRun {
 public:
  /// Throws Error(kNotFound); Error(kStore) if the store was opened as a copy,
  /// in which a run would seem to stand still.
  FollowedRun(const Store& store, std::int64_t experiment);

  /// Reads what is new and passes it on to the reporter. `now` is monotonic. A
  /// run whose experiment was deleted is settled.
  void Poll(Duration now, Reporter& reporter);

  /// True if the last Poll saw the run settled, see SettledCheck.
  bool settled() const { return settled_; }
  /// True if its experiment was deleted meanwhile; `row` and `trials` then keep
  /// the values of the last successful read.
  bool deleted() const { return deleted_; }
  const ExperimentRow& row() const { return records_.experiment; }
  const std::vector<TrialRow>& trials() const { return records_.trials; }
  const RecordedRun& run() const { return run_; }
  /// Summary of the workers of a running elastic experiment; else empty.
  const std::string& workers() const { return workers_; }
  /// Returns the state as RecordedRun::StateText does.
  std::string StateText() const { return run_.StateText(records_); }

 private:
  FollowedRun(const Store& store, const ExperimentDetail& detail);

  void Read(Duration now, Reporter& reporter);
  void ReadWorkerSummary();
  void ReadChanges();
  void ReadReports(const TrialRow& trial);
  std::vector<std::string> LastLines(TrialId trial) const;

  const Store& store_;
  ExperimentConfig config_;
  RecordedRun run_;
  RunRecords records_;
  std::string workers_;
  SettledCheck check_;
  bool settled_ = false;
  bool deleted_ = false;
  bool counted_ = false;  // a report has determined the unit of batches
  std::optional<std::int64_t> version_;  // of the data that was read
};

/// Several followed runs, as a display shows them.
class FollowedRuns {
 public:
  /// Throws as FollowedRun does.
  FollowedRuns(const Store& store, const std::vector<std::int64_t>& ids);
  FollowedRuns(const FollowedRuns&) = delete;
  FollowedRuns& operator=(const FollowedRuns&) = delete;

  /// Polls every run that is not settled, unless the last time was only just:
  /// reading takes at most a tenth of the time. `reporters`: one for each run,
  /// or empty. Returns true if it was time to poll.
  bool Poll(Duration now, const std::vector<Reporter*>& reporters = {});
  bool AllSettled() const;
  const std::deque<FollowedRun>& runs() const { return runs_; }
  /// Returns a frame for each run; valid until the next Poll.
  std::vector<LiveFrame> Frames() const;

 private:
  struct Display {
    SpeedMeter speeds;
    RemainingTime remaining;
    std::optional<double> seconds_left;
  };

  std::deque<FollowedRun> runs_;  // not moved: frames refer to them
  std::vector<Display> displays_;
  std::optional<Duration> next_;
};

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/clock.h"
#include "engine/store/rows.h"

namespace dtrain {

/// Beginning of the error of a program that exits as if it had succeeded, but
/// without its result (engine/program).
inline constexpr std::string_view kNoResult = "the program ended at ";

/// Beginning of the remark on a trial whose program failed after its work was
/// done.
inline constexpr std::string_view kFailedLate =
    "failed after its last validation: ";

/// True if the text of a failure names a cause that may pass: a lack of memory,
/// an error of a GPU, another program at the same port or file, a server that
/// cannot be reached or is busy.
bool MayPass(const std::string& why);

/// True if two failures have one cause: their texts differ at most in words
/// with digits, such as numbers, addresses and IDs, which differ from trial to
/// trial and from run to run.
bool HaveOneCause(const std::string& first, const std::string& second);

/// Delay before a restart after this number of failures in a row. A cause that
/// may pass gets more time: half a minute in all for the default max_restarts.
Duration RestartDelay(std::int64_t failures, bool may_pass = false);

/// The failures of an experiment's trials: counts those in a row that have one
/// cause, and says when they end the experiment. Pure.
class Failures {
 public:
  /// Counts what the record of a trial tells, at a restart of the runner.
  void Recover(const TrialRow& trial);

  /// Resets the counts of consecutive failures, because failed trials run
  /// again.
  void Reset();
  /// The trial has a process: it could be started.
  void SetStarted(std::int64_t trial);
  /// A trial has reported metrics; `measured`: the searcher's among them.
  void SetReported(bool measured);
  /// A trial has ended in ERROR or INVALID.
  void SetEnded(const TrialRow& trial);

  /// A process could not be started. Returns the delay before the next attempt;
  /// none after five in a row.
  std::optional<Duration> CountFailedStart();
  /// A trial has failed before its first report; `cause` is the part of its
  /// reason that other trials share, `ended` the number of ended trials.
  /// Returns why the experiment fails if this was the third in a row with one
  /// cause and no trial has ever reported; otherwise an empty string.
  std::string CountEarly(const TrialRow& trial, const std::string& cause,
                         std::int64_t ended);
  /// A trial has invalid hyperparameters, and the searcher replaces it by
  /// another. Returns why the experiment fails if it would do so without end:
  /// after three in a row, at least `planned`, the trials of the search.
  std::string CountInvalid(const std::string& why, std::int64_t planned);

  /// A process failed after its trial's work was done; `remark` begins with
  /// kFailedLate.
  void SetLate(std::int64_t trial, const std::string& remark);
  /// Returns the remark of SetLate, also of an earlier runner; empty if the
  /// trial has started a process since.
  std::string late(std::int64_t trial) const;

  /// True if a trial has reported the searcher's metric.
  bool measured() const { return measured_; }
  /// "trial 3.7: REASON" of the last trial that failed, or empty.
  const std::string& last_error() const { return last_error_; }

 private:
  void AddEarly(const std::string& reason);

  std::string last_error_;
  bool reported_ = false;
  bool measured_ = false;
  int failed_starts_ = 0;     // in a row
  std::string early_reason_;  // of the last before a first report
  int early_ = 0;             // trials in a row that failed for that cause
  std::int64_t invalid_ = 0;  // trials in a row
  std::map<std::int64_t, std::string> late_;  // by number of the trial
};

}  // namespace dtrain

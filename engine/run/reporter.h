#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/length.h"
#include "engine/slots/slots.h"
#include "engine/store/rows.h"
#include "engine/wire/message.h"

namespace dtrain {

/// Description of a run, which does not change.
struct RunInfo {
  std::int64_t experiment = 0;
  std::string name;
  std::string entrypoint;
  std::string searcher;
  std::int64_t repeats = 1;  // of each point
  std::string metric;
  bool smaller_is_better = true;
  std::uint32_t seed = 0;
  bool resumed = false;
  // As text: "2 CPU slots, 1 thread each"; empty: unknown.
  std::string slots;
  nlohmann::json hyperparameters;  // search space of the configuration
  Units units;  // programs may report epochs or records as `batches`
};

/// State of a trial that has a process, for display.
struct TrialStatus {
  TrialId id;
  nlohmann::json hparams;
  std::int64_t batches = 0;
  std::int64_t total_batches = 0;      // of the operation, absolute; 0: unknown
  std::int64_t batches_per_epoch = 0;  // 0: unknown
  std::int64_t rung = 0;
  MetricValues training;    // the last report
  MetricValues validation;  // the last report
  double seconds = 0;       // since its process started
};

/// Number of trials at one length of a search with several lengths.
struct RungStatus {
  Length length;             // of the training so far
  std::int64_t done = 0;     // trials validated at it
  std::int64_t running = 0;  // trials training towards it
};

/// State of the whole experiment, for display.
struct RunStatus {
  double progress = 0;
  std::int64_t trials = 0;
  std::int64_t trials_ended = 0;
  std::int64_t waiting = 0;  // trials pending for a slot
  std::int64_t slots_in_use = 0;
  std::int64_t slots = 0;             // 0: unknown, also those in use
  std::optional<SlotWait> slot_wait;  // of a trial, if it is long
  std::optional<BestValidation> best;
  std::int64_t best_trial = 0;
  nlohmann::json best_hparams;
  double seconds = 0;  // of this run and those before it
  std::vector<TrialStatus> running;
  std::vector<RungStatus> rungs;  // ascending; empty for fewer than two lengths
};

/// Parameters of a run, besides those that are recorded.
struct RunOptions {
  std::optional<Duration> timeout;  // pause after this time
  // Maximum time that trials may be blocked on a full disk before the run is
  // paused; none: unlimited.
  std::optional<Duration> disk_wait;
  std::string library;  // of the user's own model; empty: one of this build's
  std::string notice;   // shown at the start, or empty
  bool retry_failed = false;  // trials in ERROR run again
  // True if a program may read the hyperparameter, a dotted path, in a way that
  // it does not report; none: no.
  std::function<bool(const std::string&)> may_read;
  // Starts to send the recorded messages of `notify`, without waiting; none:
  // they are not sent.
  std::function<void()> send_notifications;
};

/// Prefix of the reason of a trial that ended by itself before its length.
inline constexpr std::string_view kEndedEarly = "ended early";
/// Reason of a trial whose experiment was canceled or killed.
inline constexpr std::string_view kCanceledReason = "canceled";
/// Beginning of the reason of a trial whose worker was taken away.
inline constexpr std::string_view kPreemptedReason = "preempted";
/// Beginning of the reason of a trial that a signal to its runner has stopped,
/// before the signal's name; and the reason if `dtrain pause` has.
inline constexpr std::string_view kStoppedBySignal = "stopped by SIG";
inline constexpr std::string_view kPausedByRequest = "paused by request";
/// Reason of a trial that a user killed by itself.
inline constexpr std::string_view kKilledReason = "killed by request";

/// Result of a run.
struct RunResult {
  std::int64_t experiment = 0;
  State state = State::kCompleted;
  // Error of a kError, or reason of a kCanceled or kPaused that no user
  // requested. If paused, `error_kind` is the kind of problem.
  std::string error;
  ErrorKind error_kind = ErrorKind::kFailed;
  int signal = 0;          // signal that paused it, or 0
  bool timed_out = false;  // the time limit paused it
  // What no checkpoint has of the trials that it paused, for users: "epochs 1
  // to 10 of trial 3.1".
  std::vector<std::string> lost;
  std::optional<BestValidation> best;
  std::int64_t best_trial = 0;
  nlohmann::json best_hparams;
  double seconds = 0;  // of this run and those before it
  // Hyperparameters that no trial of this run has read; none if unknown.
  std::optional<std::vector<std::string>> unread;
};

/// Receives the events of a run, after they were recorded, for display. Decides
/// nothing. Called from the runner's thread.
class Reporter {
 public:
  virtual ~Reporter() = default;

  virtual void Begin(const RunInfo&) {}
  /// The unit of `batches` is this, not `RunInfo::units.counted`.
  virtual void OnCounted(Unit) {}
  /// `from.batches` > 0: it resumes from a checkpoint.
  virtual void OnTrialStarted(const TrialRow&, const ReportedAt& /*from*/) {}
  virtual void OnTraining(TrialId, const TrainingReport&) {}
  virtual void OnValidation(TrialId, const ValidationReport&, bool /*best*/) {}
  virtual void OnCheckpoint(TrialId, const CheckpointSaved&) {}
  /// Once for each series of failures, and when the trial is blocked by them.
  virtual void OnCheckpointFailed(TrialId, const CheckpointFailed&) {}
  /// The trial ended, was paused, or will be restarted (state kRunning).
  virtual void OnTrialEnded(const TrialRow&,
                            const std::vector<std::string>& /*last_lines*/) {}
  /// Hyperparameters that a finished trial has never read.
  virtual void OnUnread(TrialId, const std::vector<std::string>& /*names*/) {}
  /// A line printed by a trial whose output is followed.
  virtual void OnOutput(TrialId, const LogRecord&) {}
  /// A message for the user, one line.
  virtual void OnNotice(LogLevel, const std::string&) {}
  /// The workers of an elastic experiment have changed; `summary` is one line.
  virtual void OnWorkers(const std::string& /*summary*/) {}
  /// Called several times a second.
  virtual void OnStatus(const RunStatus&) {}
  virtual void End(const RunResult&) {}
};

}  // namespace dtrain

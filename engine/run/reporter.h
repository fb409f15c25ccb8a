#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/length.h"
#include "engine/slots/slots.h"
#include "engine/store/rows.h"
#include "engine/store/trial_log.h"
#include "engine/wire/message.h"

namespace dtrain {

/// What a run is about; told once.
struct RunInfo {
  std::int64_t experiment = 0;
  std::string name;
  std::string entrypoint;
  std::string searcher;
  std::string metric;
  bool smaller_is_better = true;
  std::uint32_t seed = 0;
  bool resumed = false;
  std::string slots;               // for people: "2 CPU slots, 1 thread each"
  nlohmann::json hyperparameters;  // of the configuration: what is searched
  // What `batches` count: programs may report their epochs or records there.
  Unit counted = Unit::kBatches;
};

/// A trial that has a process, as the display shows it.
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

/// Trials at one length of a search that has several.
struct RungStatus {
  Length length;             // training in all
  std::int64_t done = 0;     // trials that were validated at it
  std::int64_t running = 0;  // trials that train towards it now
};

/// Where the whole experiment is.
struct RunStatus {
  double progress = 0;
  std::int64_t trials = 0;
  std::int64_t trials_ended = 0;
  std::int64_t waiting = 0;  // trials that wait for a slot
  std::int64_t slots_in_use = 0;
  std::int64_t slots = 0;
  std::optional<SlotWait> slot_wait;  // of a trial, if it lasts
  std::optional<BestValidation> best;
  std::int64_t best_trial = 0;
  nlohmann::json best_hparams;
  double seconds = 0;  // of this run and those before it
  std::vector<TrialStatus> running;
  std::vector<RungStatus> rungs;  // ascending; empty for fewer than two lengths
};

/// Reason of a trial whose experiment was canceled or killed.
inline constexpr std::string_view kCanceledReason = "canceled";
/// Reason of a trial that a user killed by itself.
inline constexpr std::string_view kKilledReason = "killed by request";

/// How a run ended.
struct RunResult {
  std::int64_t experiment = 0;
  State state = State::kCompleted;
  // Why, where the state is kError, or kCanceled or kPaused though nobody asked
  // for that; if paused, its kind tells what was lacking.
  std::string error;
  ErrorKind error_kind = ErrorKind::kFailed;
  int signal = 0;          // it was paused by this signal
  bool timed_out = false;  // it was paused by its time limit
  std::optional<BestValidation> best;
  std::int64_t best_trial = 0;
  nlohmann::json best_hparams;
  double seconds = 0;  // of this run and those before it
  // Hyperparameters that no trial of this run has read; none: not known.
  std::optional<std::vector<std::string>> unread;
};

/// Told what happens in a run, after it was recorded. Shows it, or not; never
/// decides anything. Called from the runner's thread.
class Reporter {
 public:
  virtual ~Reporter() = default;

  virtual void Begin(const RunInfo&) {}
  /// `batches` turn out to count this, not what `RunInfo::counted` said.
  virtual void OnCounted(Unit) {}
  /// `from_batches` > 0: it goes on from a checkpoint.
  virtual void OnTrialStarted(const TrialRow&, std::int64_t /*from_batches*/) {}
  virtual void OnTraining(TrialId, const TrainingReport&) {}
  virtual void OnValidation(TrialId, const ValidationReport&, bool /*best*/) {}
  virtual void OnCheckpoint(TrialId, const CheckpointSaved&) {}
  /// Once for each series of failures, and when the trial begins to wait.
  virtual void OnCheckpointFailed(TrialId, const CheckpointFailed&) {}
  /// The trial ended, was paused, or will be restarted (state kRunning).
  virtual void OnTrialEnded(const TrialRow&,
                            const std::vector<std::string>& /*last_lines*/) {}
  /// Hyperparameters that a trial which is done never asked for.
  virtual void OnUnread(TrialId, const std::vector<std::string>& /*names*/) {}
  /// A line that a trial has printed, of one that is followed.
  virtual void OnOutput(TrialId, const LogRecord&) {}
  /// Something a user should know, one line.
  virtual void OnNotice(LogLevel, const std::string&) {}
  /// Called several times a second.
  virtual void OnStatus(const RunStatus&) {}
  virtual void End(const RunResult&) {}
};

}  // namespace dtrain

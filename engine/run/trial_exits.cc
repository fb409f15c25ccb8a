// How TrialListener takes the end of a process.

#include <algorithm>
#include <cstring>

#include "engine/base/text.h"
#include "engine/run/experiment_state.h"
#include "engine/run/search_results.h"
#include "engine/run/trial_listener.h"

namespace dtrain {
namespace {

using Urgency = Outbox::Urgency;

std::string SignalName(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal)
                         : "SIG" + std::string(name);
}

std::string DescribeExit(const TrialExited& event) {
  const std::string who =
      event.rank < 0 ? "" : "rank " + std::to_string(event.rank) + ": ";
  if (event.out_of_memory) return who + "out of memory: killed by the kernel";
  if (event.signal == 0) {
    return who + "exited with code " + std::to_string(event.exit_code);
  }
  return who + "killed by signal " + std::to_string(event.signal) + " (" +
         SignalName(event.signal) + ")";
}

// So often in a row may a process fail to start.
constexpr int kMostFailedStarts = 5;

// So many quick restarts in a row happen in the trial's own slot, which waits
// for it (0.7 s in all): no other trial overtakes it, and on one slot the
// search is that of a run in which nothing failed. A trial that fails again
// gives the slot to the others while it waits.
constexpr std::int64_t kMaxRestartsInPlace = 3;

// How long to wait before a trial is started that has failed so often in a row.
Duration BackOff(std::int64_t failures) {
  const std::int64_t doublings = std::min<std::int64_t>(failures - 1, 9);
  return std::chrono::milliseconds(100) * (std::int64_t{1} << doublings);
}

bool Said(const ProcessState& process, EndReason reason) {
  return process.last_word && process.last_word->reason == reason;
}

bool WasAsked(const ProcessState& process) {
  return process.stop == StopCause::kRunner ||
         process.stop == StopCause::kPause;
}

}  // namespace

void TrialListener::Fail(TrialState& trial, StopCause cause,
                         const std::string& why) {
  ProcessState& process = *trial.process;
  if (process.stop == StopCause::kFailure || process.stop == StopCause::kHang ||
      process.stop == StopCause::kCancel) {
    return;
  }
  process.stop = cause;
  process.failure = why;
  state_.doors.launcher.Kill(trial.row.id);
}

void TrialListener::On(const TrialExited& event) {
  TrialState* trial = state_.trials.Find(event.trial.number);
  if (trial == nullptr || !trial->process) return;
  const auto process = state_.trials.EndProcess(*trial);
  trial->last_lines = event.last_lines;
  trial->row.pid = 0;
  trial->row.seconds += event.seconds;
  const double unrecorded =
      std::max(event.seconds - process->recorded_seconds, 0.0);
  state_.outbox.Add(
      [id = event.trial, unrecorded](StoreWriter& writer) {
        writer.ClearTrialProcess(id, unrecorded);
      },
      Urgency::kBatched);
  // One that crashed may have been at a checkpoint.
  if (!process->last_word) {
    const StoreLayout& layout = state_.doors.store.layout();
    TidyCheckpoints(state_.CheckpointsOf(event.trial));
    RemoveQuietly(layout.Scratch(event.trial));
  }
  HandleExit(*trial, *process, event);
  if (!trial->ended) state_.Tell(*trial);
  trial->last_lines = {};  // many trials may be paused
}

void TrialListener::HandleExit(TrialState& trial, ProcessState& process,
                               const TrialExited& event) {
  if (process.stop == StopCause::kFailure) {
    return driver_.Abandon(trial, ExitReason::kErrored, process.failure);
  }
  if (process.stop == StopCause::kCancel) return driver_.Cancel(trial);
  if (!event.not_started.empty()) return HandleNoStart(trial, event);
  if (!trial.has_work()) return HandleIdleExit(trial, process, event);
  if (process.stop == StopCause::kHang) {
    return HandleError(trial, process, process.failure);
  }
  HandleLastWord(trial, process, event);
}

// No fault of the trial's: the machine has no room for a process. That may
// pass.
void TrialListener::HandleNoStart(TrialState& trial, const TrialExited& event) {
  state_.SetState(trial, State::kPending, event.not_started);
  if (state_.stopping || starter_.StopIfLost()) return;
  if (++state_.failed_starts > kMostFailedStarts) {
    return starter_.StopBecauseOf(
        Error(ErrorKind::kResources,
              event.not_started +
                  "; see to what it lacks, then go on with `dtrain resume`"));
  }
  const Duration wait = BackOff(state_.failed_starts);
  state_.queue.PutOff(state_.Now() + wait, trial.turn, trial.row.id.number);
  state_.doors.reporter.OnNotice(
      LogLevel::kWarning,
      event.not_started + "; trying again in " + FormatDuration(wait));
}

void TrialListener::HandleLastWord(TrialState& trial, ProcessState& process,
                                   const TrialExited& event) {
  // No fault of the trial's, whatever it says of that.
  if (starter_.StopIfLost()) return Pause(trial);
  if (Said(process, EndReason::kInvalidHp)) {
    return driver_.Abandon(
        trial, ExitReason::kInvalidHp,
        "invalid hyperparameters: " + process.last_word->message);
  }
  if (Said(process, EndReason::kUserStop)) {
    SupersedeEarlierRuns(trial, process);
    driver_.NoteEarlyEnd(trial, process.last_word->message);
    return driver_.EndEarly(trial);
  }
  if (Said(process, EndReason::kRefused)) {
    return driver_.Abandon(trial, ExitReason::kErrored,
                           process.last_word->message);
  }
  if (Said(process, EndReason::kDamaged)) return FallBack(trial, process);
  if (Said(process, EndReason::kDiskFull)) {
    starter_.StopBecauseOf(
        Error(ErrorKind::kDiskFull, process.last_word->message));
    return Pause(trial);
  }
  if (Said(process, EndReason::kStopped) || state_.stopping ||
      WasAsked(process)) {
    return Pause(trial);
  }
  if (!Said(process, EndReason::kError)) {
    return HandleError(trial, process, DescribeExit(event));
  }
  const std::string& why = process.last_word->message;
  // The same again, before any training: another start will not mend it.
  if (why == trial.last_failure) {
    return driver_.Abandon(trial, ExitReason::kErrored, why);
  }
  trial.last_failure = why;
  HandleError(trial, process, why);
}

// The checkpoint that it began from is marked, and it begins from the next
// older one: no fault of the trial's, and so no restart.
void TrialListener::FallBack(TrialState& trial, const ProcessState& process) {
  const std::string& uuid = process.restored;
  state_.keeper.Forget(trial.row.id, uuid);
  state_.best.NoteDeleted(uuid);
  state_.outbox.Add(
      [uuid](StoreWriter& writer) {
        (void)writer.SetCheckpointFound(uuid, "CORRUPT");
      },
      Urgency::kUrgent);
  const CheckpointRow* next = state_.keeper.Latest(trial.row.id);
  trial.row.latest_checkpoint = next == nullptr ? "" : next->uuid;
  const std::string from =
      next == nullptr ? "the beginning"
                      : "checkpoint " + next->uuid + " at " +
                            PositionText(next->batches, state_.counted);
  state_.doors.reporter.OnNotice(
      LogLevel::kWarning,
      "trial " + ToString(trial.row.id) + ": " + process.last_word->message +
          "; marked CORRUPT, the trial goes on from " + from);
  if (state_.stopping) return Pause(trial);
  state_.SetState(trial, State::kPending, driver_.Remarks(trial));
  driver_.Advance(trial);
}

// From where an unfinished trial goes on if that is not where it was, as its
// last checkpoint lies before that.
std::string TrialListener::TrainedAgain(const TrialState& trial) const {
  const CheckpointRow* latest = state_.keeper.Latest(trial.row.id);
  const std::int64_t saved = latest == nullptr ? 0 : latest->batches;
  if (!trial.has_work() || saved >= trial.position) return "";
  return "; goes on from " +
         (latest == nullptr ? "the beginning"
                            : PositionText(saved, state_.counted)) +
         ", where its last checkpoint is";
}

// All that was asked of it is done, recorded, and in its checkpoint: however
// the process ended, nothing is lost.
void TrialListener::HandleIdleExit(TrialState& trial,
                                   const ProcessState& process,
                                   const TrialExited& event) {
  // A program of no planned length may say why it has trained enough.
  const bool planned = state_.searcher().max_length > 0;
  if (!planned && Said(process, EndReason::kUserStop) &&
      !process.last_word->message.empty()) {
    driver_.NoteEarlyEnd(trial, process.last_word->message);
  }
  const bool orderly =
      WasAsked(process) || state_.stopping ||
      (process.last_word ? process.last_word->reason != EndReason::kError
                         : event.exit_code == 0);
  if (!orderly) {
    state_.doors.reporter.OnNotice(
        LogLevel::kWarning, "trial " + ToString(trial.row.id) + ": " +
                                DescribeExit(event) +
                                " when it had done its work; it goes on from "
                                "its checkpoint if there is more to do");
  }
  Pause(trial);
}

void TrialListener::Pause(TrialState& trial) {
  if (trial.has_work() || !trial.close_requested) {
    state_.SetState(trial, State::kPaused,
                    driver_.WhyPaused(trial) + TrainedAgain(trial));
  }
  driver_.Advance(trial);
}

void TrialListener::HandleError(TrialState& trial, const ProcessState& process,
                                const std::string& reason) {
  const CheckpointRow* latest = state_.keeper.Latest(trial.row.id);
  const std::int64_t reached = latest == nullptr ? 0 : latest->batches;
  // Who gets further is not stuck, however often it fails.
  if (reached > process.from) trial.row.failures = 0;
  const std::int64_t most = state_.setup.config.max_restarts;
  if (trial.row.failures >= most) {
    const std::string restarts =
        trial.row.restarts == 0
            ? ""
            : " (after " + std::to_string(trial.row.restarts) +
                  (trial.row.restarts == 1 ? " restart)" : " restarts)");
    return driver_.Abandon(trial, ExitReason::kErrored, reason + restarts);
  }
  ++trial.row.restarts;
  ++trial.row.failures;
  const Duration wait = BackOff(trial.row.failures);
  if (!state_.stopping) {
    state_.queue.PutOff(state_.Now() + wait, trial.turn, trial.row.id.number,
                        trial.row.failures <= kMaxRestartsInPlace);
  }
  state_.SetState(trial, State::kPending, reason);
  state_.outbox.Add(
      [row = trial.row](StoreWriter& writer) {
        writer.SetTrialRestarts(row.id, row.restarts, row.failures);
      },
      Urgency::kUrgent);
  state_.doors.reporter.OnNotice(
      LogLevel::kWarning,
      "trial " + ToString(trial.row.id) + ": " + reason + "; restart " +
          std::to_string(trial.row.failures) + " of " + std::to_string(most) +
          " from " + PositionText(reached, state_.counted) + " in " +
          FormatDuration(wait));
}

void TrialListener::On(const Interrupted& event) {
  if (state_.stopping && state_.signal != 0) {
    return state_.doors.launcher.Abort();
  }
  state_.signal = event.signal;
  state_.doors.reporter.OnNotice(
      LogLevel::kInfo,
      "stopping: trials checkpoint; once more to kill them now");
  starter_.StopAll("stopped by " + SignalName(event.signal));
}

}  // namespace dtrain

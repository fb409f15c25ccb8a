// What Experiment makes of processes that end, or must.

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "engine/base/text.h"
#include "engine/run/checkpoint_policy.h"
#include "engine/run/experiment.h"

namespace dtrain {
namespace {

std::string DescribeExit(const TrialExited& event) {
  if (event.out_of_memory) return "out of memory: killed by the kernel";
  if (event.signal == 0) {
    return "exited with code " + std::to_string(event.exit_code);
  }
  const char* name = ::sigabbrev_np(event.signal);
  return "killed by signal " + std::to_string(event.signal) +
         (name == nullptr ? "" : " (SIG" + std::string(name) + ")");
}

// How long to wait before start number `restarts` + 1 of a trial.
Duration BackOff(std::int64_t restarts) {
  const std::int64_t doublings = std::min<std::int64_t>(restarts - 1, 9);
  return std::chrono::milliseconds(100) * (std::int64_t{1} << doublings);
}

}  // namespace

void Experiment::Fail(TrialState& trial, StopCause cause,
                      const std::string& why) {
  if (trial.stop == StopCause::kFailure || trial.stop == StopCause::kHang) {
    return;
  }
  trial.stop = cause;
  trial.failure = why;
  doors_.launcher.Kill(trial.row.id);
}

void Experiment::On(const TrialExited& event) {
  TrialState& trial = Find(event.trial);
  trial.process = ProcessState::kNone;
  trial.operation_sent = trial.close_sent = false;
  trial.unacknowledged = 0;
  trial.row.pid = 0;
  outbox_.Add(
      [id = event.trial, seconds = event.seconds](StoreWriter& writer) {
        writer.ClearTrialProcess(id, seconds);
      },
      Urgency::kUrgent);
  trial.row.seconds += event.seconds;
  HandleExit(trial, event);
  outbox_.After([this, row = trial.row, lines = event.last_lines] {
    doors_.reporter.OnTrialEnded(row, lines);
  });
  trial.stop = StopCause::kNone;
}

void Experiment::HandleExit(TrialState& trial, const TrialExited& event) {
  if (trial.stop == StopCause::kFailure) {
    return AbandonTrial(trial, ExitReason::kErrored, trial.failure);
  }
  if (trial.stop == StopCause::kHang) {
    return HandleError(trial, trial.failure);
  }
  const bool done = trial.operations.empty() && trial.close_requested;
  const auto said = [&](EndReason reason) {
    return trial.last_word && trial.last_word->reason == reason;
  };
  if (said(EndReason::kCompleted) && done) return EndTrial(trial);
  if (said(EndReason::kInvalidHp)) {
    return AbandonTrial(trial, ExitReason::kInvalidHp,
                        "invalid hyperparameters: " + trial.last_word->message);
  }
  const bool asked =
      trial.stop == StopCause::kRunner || trial.stop == StopCause::kPause;
  if (said(EndReason::kStopped) || stopping_ || asked) {
    SetState(trial, State::kPaused);
    return Advance(trial);
  }
  if (said(EndReason::kError)) {
    const std::string& why = trial.last_word->message;
    // The same again, before any training: another start will not mend it.
    if (why == trial.last_failure) {
      return AbandonTrial(trial, ExitReason::kErrored, why);
    }
    trial.last_failure = why;
    return HandleError(trial, why);
  }
  HandleError(trial, DescribeExit(event));
}

void Experiment::HandleError(TrialState& trial, const std::string& reason) {
  if (trial.row.restarts >= setup_.config.max_restarts) {
    const std::string restarts =
        trial.row.restarts == 0
            ? ""
            : " (after " + std::to_string(trial.row.restarts) +
                  (trial.row.restarts == 1 ? " restart)" : " restarts)");
    return AbandonTrial(trial, ExitReason::kErrored, reason + restarts);
  }
  ++trial.row.restarts;
  const Duration wait = BackOff(trial.row.restarts);
  trial.restart_at = Now() + wait;
  SetState(trial, State::kPending, reason);
  outbox_.Add(
      [id = trial.row.id, restarts = trial.row.restarts](StoreWriter& writer) {
        writer.SetTrialRestarts(id, restarts);
      },
      Urgency::kUrgent);
  const std::int64_t from = trial.restart_batches();
  doors_.reporter.OnNotice(
      LogLevel::kWarning,
      "trial " + ToString(trial.row.id) + ": " + reason + "; restart " +
          std::to_string(trial.row.restarts) + " of " +
          std::to_string(setup_.config.max_restarts) + " from batch " +
          std::to_string(from) + " in " + FormatDuration(wait));
}

void Experiment::On(const Interrupted& event) {
  if (stopping_ && signal_ != 0) return doors_.launcher.Abort();
  signal_ = event.signal;
  doors_.reporter.OnNotice(
      LogLevel::kInfo,
      "stopping: trials checkpoint; once more to kill them now");
  StopAll();
}

void Experiment::CollectCheckpoints() {
  std::vector<CheckpointRow> rows;
  std::set<TrialId> unfinished;
  for (const auto& [number, trial] : trials_) {
    rows.insert(rows.end(), trial->checkpoints.begin(),
                trial->checkpoints.end());
    if (!trial->ended) unfinished.insert(trial->row.id);
  }
  const auto keep = CheckpointsToKeep(setup_.config.checkpoints,
                                      setup_.config.searcher.smaller_is_better,
                                      rows, unfinished);
  for (const CheckpointRow& row : rows) {
    if (keep.contains(row.uuid)) continue;
    std::erase_if(Find(row.trial).checkpoints,
                  [&](const CheckpointRow& c) { return c.uuid == row.uuid; });
    outbox_.Add(
        [uuid = row.uuid](StoreWriter& writer) {
          writer.SetCheckpointState(uuid, "DELETED");
        },
        Urgency::kUrgent);
    const auto path = doors_.store.layout().Checkpoint(row.trial, row.uuid);
    outbox_.After([path] {
      std::error_code ignored;  // what stays is found by `dtrain gc`
      std::filesystem::remove_all(path, ignored);
    });
  }
}

}  // namespace dtrain

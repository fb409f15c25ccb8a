// Experiment: the end of a trial's process and its consequence for the trial,
// in the order in which the causes count: an error that dtrain found, a kill, a
// process that never started, finished work, and otherwise the final message.
// A program that resumes at its length and does not validate there, because it
// has done so before its runner died, trains again from an earlier checkpoint.
// A crash is retried from the last checkpoint after a delay that doubles. A
// trial that gets further between failures is retried without limit; one that
// reports the same error twice without any training is not retried, and nor is
// a program that twice exits alike before its first report. A cause that may
// pass, such as a port in use, is retried in any case. If three trials fail so
// for one cause and none has reported, the experiment fails. A lost store, a
// full disk and a damaged checkpoint are not failures of the trial. A program
// does not report a full disk; its log says it. Nor is a fault of a GPU one,
// which the launcher has set aside: the trial resumes on another at once. Nor
// is the end of a worker's time.

#include <algorithm>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/os/signals.h"
#include "engine/os/spawn.h"
#include "engine/run/experiment.h"
#include "searchers/search_plan.h"

namespace dtrain {
namespace {

using Urgency = Outbox::Urgency;

std::string DescribeExit(const TrialExited& event) {
  if (!event.lost.empty()) return event.lost;
  const std::string who =
      event.rank < 0 ? "" : "rank " + std::to_string(event.rank) + ": ";
  if (event.out_of_memory) return who + "out of memory: killed by the kernel";
  return who + FormatExit({.code = event.exit_code, .signal = event.signal});
}

// Returns the line of a failed program on stderr that names the cause; empty if
// the end was forced from outside.
std::string FindErrorLine(const TrialExited& event,
                          const ExperimentConfig& config) {
  constexpr std::size_t kMaxColumns = 200;
  if (!IsCommand(config) || event.out_of_memory || event.signal == SIGKILL ||
      event.signal == SIGTERM) {
    return "";
  }
  return Truncate(event.last_error_line, kMaxColumns);
}

// Maximum number of restarts in a row for which the trial's slot is kept free
// (0.7 s in all): no other trial overtakes it, and on one slot the search is
// that of a run without failures. After one more failure the slot goes to the
// others until the restart.
constexpr std::int64_t kMaxRestartsInPlace = 3;

std::string JoinReasons(const std::string& first, const std::string& second) {
  return first + (first.empty() || second.empty() ? "" : "; ") + second;
}

// Returns which report of a program was ignored, as the last lines of its log
// say, or empty. Such a program may wait for the answer.
std::string IgnoredReport(const std::vector<std::string>& last_lines) {
  constexpr std::string_view kMark = "ignored, see docs/protocol.md: ";
  for (const std::string& line : last_lines) {
    const std::size_t at = line.find(kMark);
    if (at == line.npos) continue;
    return "a report was ignored: " + line.substr(at + kMark.size());
  }
  return "";
}

// Maximum number of GPUs that fail a trial in a row without its having trained.
// Beyond that the trial itself is the likelier cause.
constexpr int kMaxGpuFaults = 3;

// Returns the error message or the last log line of a failed process that says
// that a disk was full.
std::optional<std::string> LineAboutAFullDisk(
    const std::string& message, const std::vector<std::string>& last_lines) {
  const auto is_about_it = [](const std::string& line) {
    return line.find("No space left on device") != std::string::npos ||
           line.find("Disk quota exceeded") != std::string::npos;
  };
  if (is_about_it(message)) return message;
  const auto found =
      std::find_if(last_lines.rbegin(), last_lines.rend(), is_about_it);
  if (found == last_lines.rend()) return std::nullopt;
  return *found;
}

// True if neither this process nor an earlier one of the trial has reported.
bool FailedBeforeReport(const TrialState& trial, const TrialProcess& process,
                        const CheckpointRow* latest) {
  return trial.row.batches == 0 && process.training.empty() &&
         process.validation.empty() && latest == nullptr;
}

// Counts a fault of a GPU that ended the process. True if it costs the trial no
// restart.
bool ForgiveGpuFault(TrialState& trial, const TrialProcess& process,
                     std::int64_t saved_batches) {
  // It has trained since the last fault, so that one does not count against it.
  if (saved_batches > process.from()) trial.gpu_faults = 0;
  return ++trial.gpu_faults <= kMaxGpuFaults;
}

// True if a program ended without a result because it had nothing to do: it has
// resumed at its length, and has not validated there. One that has trained to
// there without a validation would not make one in a second attempt either.
bool LacksItsValidation(const TrialState& trial, const TrialProcess& process,
                        const CheckpointRow* latest,
                        const ReportedLengths& lengths) {
  const bool had_nothing_to_do =
      process.FinishedBy(EndReason::kError) &&
      process.finished()->message.starts_with(kNoResult) &&
      !trial.last_failure.starts_with(kNoResult);
  if (!had_nothing_to_do || latest == nullptr ||
      latest->uuid != process.restored() || trial.operations.front() == 0) {
    return false;
  }
  const auto& validated = process.validated;
  if (validated && validated->batches >= latest->batches) return false;
  const double length = lengths.DecodeLength(latest->at());
  return length >= static_cast<double>(trial.operations.front());
}

// Returns the position that an unfinished trial will resume from, as text, if
// its last checkpoint is behind its present position.
std::string TrainedAgain(const TrialState& trial, const CheckpointRow* latest,
                         const Units& units) {
  const std::int64_t saved = latest == nullptr ? 0 : latest->batches;
  if (!trial.has_work() || saved >= trial.position) return "";
  if (latest == nullptr) return "resumes from the beginning: no checkpoint";
  return "resumes from " + PositionText(latest->at(), units) +
         ", its last checkpoint";
}

// Returns what a paused trial has to do again, or an empty string. A trial that
// saved a checkpoint when it was asked to stop, or ended between two steps, has
// lost nothing.
std::string FindLoss(const TrialState& trial, const TrialProcess& process,
                     const CheckpointRow* latest,
                     const ReportedLengths& lengths, bool is_program,
                     bool killed_by_us) {
  if (!process.running()) return "";  // it was waiting for a slot
  const ReportedAt saved = latest == nullptr ? ReportedAt() : latest->at();
  const std::string of = " of trial " + ToString(trial.row.id);
  // Within a step: the host of a program had to end it.
  const bool was_cut_off =
      killed_by_us ||
      (process.finished() && !process.finished()->message.empty());
  const bool is_behind = trial.position > saved.batches;
  if (is_behind && lengths.is_exact()) {
    return RangeText(saved.batches + 1, trial.position,
                     lengths.units().counted) +
           of;
  }
  if (!is_behind && (process.saved_since_stop() || !is_program)) return "";
  if (latest == nullptr) return "all that was done" + of;
  if (!is_behind && !was_cut_off) return "";
  return "what came after " + PositionText(saved, lengths.units()) + of;
}

}  // namespace

// Kills the trial's process. The consequence for the trial depends on `cause`.
void Experiment::Fail(TrialState& trial, StopCause cause,
                      const std::string& why) {
  if (!trial.process->Kill(cause, why)) return;
  trials_.Refile(trial);
  deps_.launcher.Kill(trial.row.id);
}

void Experiment::On(const TrialExited& event) {
  TrialState* trial = trials_.Find(event.trial.number);
  if (trial == nullptr || !trial->process) return;
  const auto process = trials_.EndProcess(*trial);
  trial->last_lines = event.last_lines;
  trial->row.pid = 0;
  trial->row.seconds += event.seconds;
  if (trial->has_work()) trial->worked += process->DrainWork(Now());
  // RecordTime has recorded most of the process's seconds while it ran.
  const double unrecorded =
      std::max(event.seconds - process->recorded_seconds(), 0.0);
  outbox_.Add(
      [id = event.trial, unrecorded](StoreWriter& writer) {
        writer.ClearTrialProcess(id, unrecorded);
      },
      Urgency::kBatched);
  // Without a last message it may have left half a checkpoint.
  if (!process->finished()) files_.CleanAfterCrash(event.trial);
  if (event.gpu_fault) ReportGpuFault(*event.gpu_fault);
  HandleExit(*trial, *process, event);
  if (!trial->ended) ReportEnd(*trial);
  trial->last_lines = {};  // many trials may be paused
}

void Experiment::HandleExit(TrialState& trial, TrialProcess& process,
                            const TrialExited& event) {
  if (process.stop() == StopCause::kFailure) {
    return Abandon(trial, ExitReason::kErrored, process.failure());
  }
  if (process.stop() == StopCause::kCancel) return Cancel(trial);
  if (!event.not_started.empty()) return HandleNoStart(trial, event);
  // A verdict on the whole trial counts also after its results.
  const bool has_verdict = process.FinishedBy(EndReason::kRefused) ||
                           process.FinishedBy(EndReason::kInvalidHp);
  if (!trial.has_work() && !has_verdict) {
    return HandleIdleExit(trial, process, event);
  }
  if (process.stop() == StopCause::kHang) {
    return HandleError(
        trial, process,
        JoinReasons(process.failure(), IgnoredReport(event.last_lines)));
  }
  HandleFinished(trial, process, event);
}

// The machine cannot start a process now, which may pass. This is not a failure
// of the trial.
void Experiment::HandleNoStart(TrialState& trial, const TrialExited& event) {
  SetState(trial, State::kPending, event.not_started);
  if (stop_.stopping() || StopIfLost()) return;
  if (search_.ended()) return Advance(trial);
  if (StopIfUnwritable(trial, event.not_started, /*has_run=*/false)) return;
  const auto wait = failures_.CountFailedStart();
  if (!wait) {
    return StopOnError(
        Error(ErrorKind::kResources,
              event.not_started + "; fix this, then run `dtrain resume`"));
  }
  queue_.Delay(Now() + *wait, trial.turn, trial.row.id.number);
  deps_.reporter.OnNotice(
      LogLevel::kWarning,
      event.not_started + "; trying again in " + FormatDuration(*wait));
}

void Experiment::HandleFinished(TrialState& trial, TrialProcess& process,
                                const TrialExited& event) {
  // Not a failure of the trial, whatever its message says.
  if (StopIfLost()) return Pause(trial);
  const CheckpointRow* latest = keeper_.Latest(trial.row.id);
  if (process.FinishedBy(EndReason::kInvalidHp)) {
    const std::string& why = process.finished()->message;
    Abandon(trial, ExitReason::kInvalidHp, std::string(kInvalidReason) + why);
    const std::int64_t planned =
        PlanSearch(searcher(), setup_.config.hyperparameters).max_trials;
    const std::string end = failures_.CountInvalid(why, planned);
    const bool goes_on = !stop_.stopping() && !search_.over();
    if (!end.empty() && goes_on) FailExperiment(end);
    return;
  }
  if (process.FinishedBy(EndReason::kUserStop)) {
    SupersedeEarlierRuns(trial, process);
    trial.SetEndedEarly(process.finished()->message);
    if (!std::exchange(trial.exit_reported, true)) {
      Post(ExitedEarly{trial.index(), ExitReason::kUserStop});
    }
    return End(trial, State::kCompleted, Remarks(trial));
  }
  if (process.FinishedBy(EndReason::kRefused)) {
    const std::string& why = process.finished()->message;
    const bool early = FailedBeforeReport(trial, process, latest);
    Abandon(trial, ExitReason::kErrored, why);
    if (early) CountEarlyFailure(trial, why);
    return;
  }
  if (process.FinishedBy(EndReason::kDamaged)) return FallBack(trial, process);
  if (process.FinishedBy(EndReason::kDiskFull)) {
    StopOnError(Error(ErrorKind::kDiskFull, process.finished()->message));
    return Pause(trial);
  }
  const bool stopped = stop_.stopping() || process.asked_to_stop();
  // An error of its own, at that moment, is a failure.
  if (event.preempted && !stopped && !process.FinishedBy(EndReason::kError)) {
    return Preempt(trial);
  }
  if (process.FinishedBy(EndReason::kStopped) || stopped) {
    if (process.stop() == StopCause::kTime && !stop_.stopping()) {
      SetState(trial, State::kPaused, Remarks(trial));
      return EndByTime(trial);
    }
    if (stop_.stopping()) {
      const std::string loss =
          FindLoss(trial, process, latest, lengths_, IsCommand(setup_.config),
                   event.killed_by_us);
      if (!loss.empty()) stop_.AddLoss(loss);
    }
    return Pause(trial);
  }
  HandleCrash(trial, process, event);
}

// The trial lost its machine, and continues elsewhere from its last checkpoint,
// which was saved just now unless that took too long. This is not a failure,
// and costs no restart.
void Experiment::Preempt(TrialState& trial) {
  ++trial.row.preemptions;
  SetState(trial, State::kPending,
           JoinReasons(std::string(kPreemptedReason),
                       TrainedAgain(trial, keeper_.Latest(trial.row.id),
                                    lengths_.units())));
  outbox_.Add(
      [row = trial.row](StoreWriter& writer) {
        writer.SetTrialPreemptions(row.id, row.preemptions);
      },
      Urgency::kUrgent);
  Advance(trial);
}

// Handles the end of a process whose operation is not complete.
void Experiment::HandleCrash(TrialState& trial, const TrialProcess& process,
                             const TrialExited& event) {
  const bool has_message = process.FinishedBy(EndReason::kError);
  const std::string what =
      has_message ? process.finished()->message : DescribeExit(event);
  if (StopIfDiskIsFull(trial, what, event.last_lines) ||
      StopIfUnwritable(trial, what, /*has_run=*/true)) {
    return Pause(trial);
  }
  const CheckpointRow* latest = keeper_.Latest(trial.row.id);
  const std::int64_t saved = latest == nullptr ? 0 : latest->batches;
  if (event.gpu_fault && ForgiveGpuFault(trial, process, saved)) {
    SetState(trial, State::kPending,
             event.gpu_fault->gpus + ": " + event.gpu_fault->reason);
    return Advance(trial);
  }
  const std::string line =
      has_message ? "" : FindErrorLine(event, setup_.config);
  const std::string why = line.empty() ? what : what + ": " + line;
  // The rules for failures that repeat do not apply: the next attempt may find
  // the port free.
  if (MayPass(why)) return HandleError(trial, process, why);
  // Two failures without a text cannot be compared.
  const bool early = FailedBeforeReport(trial, process, latest) &&
                     !event.gpu_fault && (has_message || !line.empty());
  if (!has_message && !early) return HandleError(trial, process, why);
  // The same error before any training, or the same end without a result: a
  // restart will not help.
  if (saved <= process.from() && HaveOneCause(why, trial.last_failure)) {
    Abandon(trial, ExitReason::kErrored,
            has_message ? why : why + " (twice, before its first report)");
  } else if (IsCommand(setup_.config) &&
             LacksItsValidation(trial, process, latest, lengths_)) {
    trial.last_failure = why;
    RepeatLength(trial, CheckpointRow(*latest), why);
  } else {
    trial.last_failure = why;
    HandleError(trial, process, why);
  }
  if (early && trial.ended) CountEarlyFailure(trial, line.empty() ? why : line);
}

// Counts a trial that has failed before its first report, and ends the
// experiment if enough have.
void Experiment::CountEarlyFailure(const TrialState& trial,
                                   const std::string& cause) {
  const std::string why =
      failures_.CountEarly(trial.row, cause, trials_.ended());
  if (!why.empty() && !stop_.stopping()) FailExperiment(why);
}

// Names the GPUs that were set aside. Pauses the experiment if too few are
// left.
void Experiment::ReportGpuFault(const GpuFault& fault) {
  const std::string what = fault.gpus + ": " + fault.reason;
  if (stop_.stopping()) return;
  if (!fault.set_aside) {
    deps_.reporter.OnNotice(
        LogLevel::kWarning,
        what + "; MPS has ended a trial after a fault of another");
    return;
  }
  if (fault.none_left) {
    return StopOnError(Error(
        ErrorKind::kResources,
        "no trial can be started, because too few GPUs are left: " + what +
            "; see what nvidia-smi prints, reset the GPU (nvidia-smi -r) or "
            "restart the machine, then run `dtrain resume " +
            std::to_string(setup_.id) + "`"));
  }
  deps_.reporter.OnNotice(
      LogLevel::kWarning,
      what + "; it is set aside, and tested again every minute");
}

void Experiment::On(const WorkersFailed& event) {
  StopOnError(Error(ErrorKind::kResources, event.why));
}

void Experiment::On(const GpuRestored& event) {
  deps_.reporter.OnNotice(LogLevel::kInfo,
                          event.gpu + " passed a test and is used again");
}

// Stops the run if the error message or the log of a failed process says that
// a disk is full, which is not a failure of the trial.
bool Experiment::StopIfDiskIsFull(const TrialState& trial,
                                  const std::string& why,
                                  const std::vector<std::string>& last_lines) {
  const auto line = LineAboutAFullDisk(why, last_lines);
  if (!line) return false;
  StopOnError(Error(ErrorKind::kDiskFull,
                    "trial " + ToString(trial.row.id) + ": " + why +
                        (*line == why ? "" : ": " + *line) +
                        "; free some space, then run `dtrain resume " +
                        std::to_string(setup_.id) + "`"));
  return true;
}

// Stops the run if the trial's directories cannot be written now, which is not
// a failure of the trial, whatever its own message says.
bool Experiment::StopIfUnwritable(const TrialState& trial,
                                  const std::string& why, bool has_run) {
  const std::string problem = files_.FindUnwritable(trial.row.id, has_run);
  if (problem.empty()) return false;
  StopOnError(Error(ErrorKind::kStore, "trial " + ToString(trial.row.id) +
                                           ": " + why + ": " + problem +
                                           ", then run `dtrain resume " +
                                           std::to_string(setup_.id) + "`"));
  return true;
}

// Marks the checkpoint that the process started from as CORRUPT. The trial
// resumes from the next older one, which does not count as a restart.
void Experiment::FallBack(TrialState& trial, const TrialProcess& process) {
  const std::string& uuid = process.restored();
  // From here on the keeper offers the checkpoint before this one. If that is
  // damaged, too, its process says so, and the trial falls back again.
  keeper_.Forget(trial.row.id, uuid);
  best_.ClearCheckpoint(uuid);
  outbox_.Add(
      [uuid](StoreWriter& writer) {
        (void)writer.SetCheckpointFound(uuid, "CORRUPT");
      },
      Urgency::kUrgent);
  ResumeEarlier(trial, process.finished()->message + "; marked CORRUPT, the");
}

// Restarts the trial, whose last checkpoint is gone, from the one before.
void Experiment::ResumeEarlier(TrialState& trial, const std::string& why) {
  const CheckpointRow* next = keeper_.Latest(trial.row.id);
  trial.row.latest_checkpoint = next == nullptr ? "" : next->uuid;
  const std::string from = next == nullptr
                               ? "the beginning"
                               : "checkpoint " + next->uuid + " at " +
                                     PositionText(next->at(), lengths_.units());
  deps_.reporter.OnNotice(LogLevel::kWarning,
                          "trial " + ToString(trial.row.id) + ": " + why +
                              " trial resumes from " + from);
  if (stop_.stopping()) return Pause(trial);
  SetState(trial, State::kPending, Remarks(trial));
  Advance(trial);
}

// Completes the operation by the recorded validation at its length. If that was
// lost with its runner, the trial measures it again.
void Experiment::RepeatLength(TrialState& trial, const CheckpointRow& last,
                              const std::string& why) {
  const TrialId id = trial.row.id;
  // The program will not validate there again, since it has nothing left to do;
  // the record has what it reported before.
  if (const auto value = RecordedMetric(
          id, {.from = last.batches, .until = last.batches + 1})) {
    Post(ValidationCompleted{trial.index(), trial.operations.front(), *value,
                             std::exchange(trial.worked, 0.0)});
    return Pause(trial);
  }
  keeper_.Forget(id, last.uuid);
  DeleteCheckpoints({last});
  ResumeEarlier(trial, why + "; the validation there was lost, so the");
}

// Handles the end of a process without an operation. All its work is recorded,
// however the process ended, and in its checkpoint unless that is what failed.
void Experiment::HandleIdleExit(TrialState& trial, const TrialProcess& process,
                                const TrialExited& event) {
  // A program of no planned length may say why it has trained enough.
  const bool planned = searcher().max_length > 0;
  if (!planned && process.FinishedBy(EndReason::kUserStop) &&
      !process.finished()->message.empty()) {
    trial.SetEndedEarly(process.finished()->message);
  }
  const bool stopped = process.asked_to_stop() || stop_.stopping();
  const bool failed = process.finished()
                          ? process.finished()->reason == EndReason::kError
                          : event.exit_code != 0;
  const std::string line =
      failed ? FindErrorLine(event, setup_.config) : std::string();
  // A program that is asked to stop ends as it likes, but lacks a checkpoint
  // if the disk prevented that.
  const bool is_told =
      failed &&
      (!stopped || LineAboutAFullDisk(line, {}) ||
       !files_.FindUnwritable(trial.row.id, /*has_run=*/true).empty());
  if (is_told && !line.empty() && event.signal == 0 && event.lost.empty()) {
    const CheckpointRow* latest = keeper_.Latest(trial.row.id);
    const bool is_behind =
        latest != nullptr && latest->batches < trial.position;
    failures_.SetLate(
        trial.row.id.number,
        std::string(kFailedLate) + DescribeExit(event) + ": " + line +
            (is_behind ? "; its newest checkpoint is at " +
                             PositionText(latest->at(), lengths_.units())
                       : ""));
  }
  if (failed && !stopped) {
    deps_.reporter.OnNotice(LogLevel::kWarning,
                            "trial " + ToString(trial.row.id) + ": " +
                                DescribeExit(event) +
                                " after its work was done; it resumes from "
                                "its checkpoint if there is more to do");
  }
  Pause(trial);
}

void Experiment::Pause(TrialState& trial) {
  const bool is_cut_off = search_.ended() && trial.has_work();
  if (!is_cut_off && (trial.has_work() || !trial.close_requested)) {
    // A request that survives a crash of the runner cancels the experiment.
    if (stop_.canceled() && !search_.over()) {
      SetState(trial, State::kCanceled, std::string(kCanceledReason));
      return CleanWorkingTree(trial.row.id);
    }
    SetState(trial, State::kPaused,
             JoinReasons(PauseReason(trial),
                         TrainedAgain(trial, keeper_.Latest(trial.row.id),
                                      lengths_.units())));
  }
  Advance(trial);
}

void Experiment::HandleError(TrialState& trial, const TrialProcess& process,
                             const std::string& reason) {
  const ReportedAt reached = keeper_.Saved(trial.row.id);
  // A trial that makes progress between failures is not stuck.
  if (reached.batches > process.from()) trial.row.failures = 0;
  const std::int64_t most = setup_.config.max_restarts;
  // `failures` counts in a row and is compared; `restarts` counts all and is
  // shown.
  if (trial.row.failures >= most) {
    const std::string restarts =
        trial.row.restarts == 0
            ? ""
            : " (after " + CountText(trial.row.restarts, "restart") + ")";
    return Abandon(trial, ExitReason::kErrored, reason + restarts);
  }
  if (search_.ended()) return Advance(trial);
  ++trial.row.restarts;
  ++trial.row.failures;
  const Duration wait = RestartDelay(trial.row.failures, MayPass(reason));
  if (!stop_.stopping()) {
    queue_.Delay(Now() + wait, trial.turn, trial.row.id.number,
                 trial.row.failures <= kMaxRestartsInPlace);
  }
  SetState(trial, State::kPending, reason);
  outbox_.Add(
      [row = trial.row](StoreWriter& writer) {
        writer.SetTrialRestarts(row.id, row.restarts, row.failures);
      },
      Urgency::kUrgent);
  deps_.reporter.OnNotice(
      LogLevel::kWarning,
      "trial " + ToString(trial.row.id) + ": " + reason + "; restart " +
          std::to_string(trial.row.failures) + " of " + std::to_string(most) +
          " from " + PositionText(reached, lengths_.units()) + " in " +
          FormatDuration(wait));
}

}  // namespace dtrain

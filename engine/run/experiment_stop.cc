// Experiment: stopping everything, because of a signal, a request of another
// process, a limit, a lost store or a failure. A stop asks every trial to save
// a checkpoint; the launcher enforces it after a grace period (see
// LaunchedTrial), and a second signal or a kill skips that. Trials that have
// exited are paused, and the experiment can be resumed unless it was canceled
// or has failed.

#include <algorithm>
#include <string>

#include "engine/base/text.h"
#include "engine/run/experiment.h"

namespace dtrain {
namespace {

// Period of the check whether the store was moved.
constexpr Duration kFilesPeriod = std::chrono::seconds(1);

}  // namespace

void Experiment::On(const Interrupted& event) {
  if (!stop_.SetSignal(event.signal)) return deps_.launcher.Abort();
  deps_.reporter.OnNotice(
      LogLevel::kInfo,
      "stopping: saving checkpoints; press Ctrl-C again to kill the trials");
  StopAll("stopped by " + SignalName(event.signal));
}

void Experiment::CheckTimeLimit() {
  std::optional<Duration> limit = setup_.options.timeout;
  if (setup_.config.time_limit) {
    const auto own = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(*setup_.config.time_limit));
    limit = limit ? std::min(*limit, own) : own;
  }
  if (stop_.stopping() || !limit || Now() - start_ < *limit) return;
  stop_.SetTimedOut();
  StopAll("stopped at its time limit");
}

// Ends the run with the disk's error when a trial has been blocked on a full
// disk for longer than the option allows.
void Experiment::CheckDiskWait() {
  const auto& limit = setup_.options.disk_wait;
  if (stop_.stopping() || !limit) return;
  for (const auto& [number, trial] : trials_.live()) {
    const auto& since = trial->process->blocked_since();
    if (!since || Now() - *since < *limit) continue;
    return StopBecauseOf(
        Error(ErrorKind::kDiskFull, trial->process->failure()));
  }
}

// Checks the store and the checkpoint directory: a trial does not report that
// it could not write a checkpoint.
void Experiment::CheckFiles(Duration now) {
  if (stop_.stopping() || now - checked_files_at_ < kFilesPeriod) return;
  checked_files_at_ = now;
  StopIfLost(files_.watches_storage());
}

// Asks every process to end, and starts no more. `why` becomes the reason of
// the trials that are left.
void Experiment::StopAll(const std::string& why) {
  stop_.Stop(why);
  queue_.Clear();
  for (const auto& [number, trial] : trials_.live()) {
    trial->process->Stop(StopCause::kRunner);
    deps_.launcher.RequestStop(trial->row.id);
  }
}

// Stops because the machine lacks what the run needs, and tells the user.
void Experiment::StopBecauseOf(const Error& problem) {
  if (!stop_.SetProblem(problem)) return;
  deps_.reporter.OnNotice(LogLevel::kError, std::string(problem.what()) +
                                                "; pausing the experiment");
  if (!stop_.stopping()) StopAll("stopped: " + std::string(problem.what()));
}

// Stops if the store or the checkpoint directory was moved or removed while the
// experiment runs. Returns false if they are in place.
bool Experiment::StopIfLost(bool with_storage) {
  const std::string why = files_.WhyLost(with_storage);
  if (why.empty()) return false;
  StopBecauseOf(Error(ErrorKind::kStore, why));
  return true;
}

// Stops, and the experiment ends in ERROR.
void Experiment::FailBecauseOf(const std::string& why) {
  if (stop_.SetFailure(why)) StopAll("the experiment failed: " + why);
}

// Executes new requests of other processes. Cheap if the store is unchanged.
void Experiment::PollRequests() {
  if (!deps_.store.ChangedByOthers()) return;
  for (const RequestRow& request : deps_.store.OpenRequests(setup_.id)) {
    Execute(request);
  }
}

void Experiment::Execute(const RequestRow& request) {
  if (!seen_requests_.insert(request.id).second) return;
  if (request.trial) return KillTrial(request);
  requests_until_end_.push_back(request.id);
  deps_.reporter.OnNotice(LogLevel::kInfo,
                          "asked to " + std::string(RequestName(request.kind)) +
                              " from another process");
  switch (request.kind) {
    case RequestKind::kPause:
      if (!stop_.stopping()) StopAll("paused by request");
      return;
    case RequestKind::kCancel:
      return CancelAll(/*now=*/false);
    case RequestKind::kKill:
      return CancelAll(/*now=*/true);
  }
}

void Experiment::CancelAll(bool now) {
  stop_.Cancel();
  if (!stop_.stopping()) StopAll("canceled");
  if (now) deps_.launcher.Abort();
}

void Experiment::KillTrial(const RequestRow& request) {
  // A trial that has ended keeps its state.
  TrialState* trial = trials_.Find(*request.trial);
  if (trial != nullptr) {
    if (trial->process) {
      trial->process->Cancel();
      deps_.launcher.Kill(trial->row.id);
    } else {
      Cancel(*trial);
    }
  }
  FinishRequest(request.id);
}

void Experiment::FinishRequest(std::int64_t request) {
  outbox_.Add([request](StoreWriter& writer) { writer.FinishRequest(request); },
              Outbox::Urgency::kUrgent);
}

}  // namespace dtrain

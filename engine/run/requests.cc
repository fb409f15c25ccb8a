#include "engine/run/requests.h"

#include <string>

#include "engine/base/text.h"

namespace dtrain {

void Requests::Recover() {
  const std::int64_t experiment = state_.setup.id;
  for (const RequestRow& request :
       state_.doors.store.OpenRequests(experiment)) {
    if (request.kind == RequestKind::kPause) {
      taken_.insert(request.id);
      Finish(request.id);
    } else {
      Take(request);
    }
  }
}

void Requests::Look() {
  if (!state_.doors.store.ChangedByOthers()) return;
  for (const RequestRow& request :
       state_.doors.store.OpenRequests(state_.setup.id)) {
    Take(request);
  }
}

void Requests::Take(const RequestRow& request) {
  if (!taken_.insert(request.id).second) return;
  if (request.trial) return KillTrial(request);
  until_end_.push_back(request.id);
  state_.doors.reporter.OnNotice(
      LogLevel::kInfo, "asked to " + std::string(RequestName(request.kind)) +
                           " from another process");
  switch (request.kind) {
    case RequestKind::kPause:
      if (!state_.stopping) starter_.StopAll("paused by request");
      return;
    case RequestKind::kCancel:
      return CancelAll(/*now=*/false);
    case RequestKind::kKill:
      return CancelAll(/*now=*/true);
  }
}

void Requests::CancelAll(bool now) {
  state_.canceled = true;
  if (!state_.stopping) starter_.StopAll("canceled");
  if (now) state_.doors.launcher.Abort();
}

void Requests::KillTrial(const RequestRow& request) {
  // One that has ended is left as it is.
  TrialState* trial = state_.trials.Find(*request.trial);
  if (trial != nullptr) {
    if (trial->process) {
      trial->process->stop = StopCause::kCancel;
      state_.doors.launcher.Kill(trial->row.id);
    } else {
      driver_.Cancel(*trial);
    }
  }
  Finish(request.id);
}

void Requests::Finish(std::int64_t request) {
  state_.outbox.Add(
      [request](StoreWriter& writer) { writer.FinishRequest(request); },
      Outbox::Urgency::kUrgent);
}

void Requests::RecordDone() {
  for (const std::int64_t request : until_end_) Finish(request);
  until_end_.clear();
}

}  // namespace dtrain

#include "engine/run/search_driver.h"

#include <utility>
#include <vector>

#include "engine/base/text.h"
#include "engine/run/runner.h"

namespace dtrain {
namespace {

using Urgency = Outbox::Urgency;

constexpr std::size_t kMaxReason = 1000;

// "ended early: the loss is below 0.1".
std::string EarlyReason(const std::string& why) {
  return std::string(kEndedEarly) + (why.empty() ? " by itself" : ": " + why);
}

// The reverse, of the beginning of a trial's reason.
std::string WhyEarly(const std::string& reason) {
  const std::string before = std::string(kEndedEarly) + ": ";
  return reason.starts_with(before) ? reason.substr(before.size()) : "";
}

}  // namespace

void SearchDriver::FeedAll() {
  while (!events_.empty()) {
    const Event event = std::move(events_.front());
    events_.pop_front();
    Feed(event);
  }
}

void SearchDriver::Feed(const Event& event) {
  Take(event);
  TrialState* subject = nullptr;
  if (const auto* done = std::get_if<ValidationCompleted>(&event)) {
    subject = state_.trials.Find(done->trial + 1);
    if (subject != nullptr) RecordResult(*subject);
  }
  for (const Operation& operation :
       state_.search.Handle(event, state_.outbox)) {
    if (const auto* create = std::get_if<Create>(&operation)) AddTrial(*create);
    if (TrialState* trial = Give(event, operation)) Advance(*trial);
  }
  // It may have been told before that this was its last operation.
  if (subject != nullptr) Advance(*subject);
  if (state_.shutdown) CloseAll();
}

void SearchDriver::CloseAll() {
  std::vector<TrialState*> left;
  for (const auto& [number, trial] : state_.trials.trials()) {
    left.push_back(trial.get());
  }
  for (TrialState* trial : left) {
    trial->close_requested = true;
    Advance(*trial);
  }
}

void SearchDriver::Recover(TrialRow row) {
  row.rung = 0;  // counted anew by what is replayed
  const bool ended_early = row.reason.starts_with(kEndedEarly);
  const std::string why_early = WhyEarly(row.reason);
  const std::string why = "trial " + ToString(row.id) + ": " + row.reason;
  if (row.state == State::kError) state_.last_error = why;
  TrialState* trial = state_.trials.Add(std::move(row));
  if (trial == nullptr) return;
  trial->ended_early = ended_early;
  trial->why_early = why_early;
}

void SearchDriver::Replay(const SearcherEventRow& row) {
  const Event event = EventFromJson(row.event);
  Take(event);
  for (const nlohmann::json& operation : row.operations) {
    Give(event, OperationFromJson(operation));
  }
}

void SearchDriver::Take(const Event& event) {
  state_.trials.Take(event);
  if (const auto* done = std::get_if<ValidationCompleted>(&event)) {
    state_.rungs.Count(done->length);
  }
}

TrialState* SearchDriver::Give(const Event& cause, const Operation& operation) {
  if (const auto* shutdown = std::get_if<Shutdown>(&operation)) {
    state_.shutdown = true;
    state_.failed = shutdown->failed;
  }
  return state_.trials.Give(cause, operation);
}

void SearchDriver::AddTrial(const Create& create) {
  TrialRow row;
  row.id = {state_.setup.id, create.trial + 1};
  row.request_id = create.request_id;
  row.hparams = create.hparams;
  row.seed = state_.setup.config.trial_seed.value_or(create.seed);
  row.created = state_.doors.clock.now();
  state_.outbox.Add([row](StoreWriter& writer) { writer.AddTrial(row); },
                    Urgency::kUrgent);
  state_.trials.Add(std::move(row));
  Post(Created{create.trial});
}

void SearchDriver::RecordResult(TrialState& trial) {
  state_.outbox.Add([id = trial.row.id, rung = trial.row.rung](
                        StoreWriter& writer) { writer.SetTrialRung(id, rung); },
                    Urgency::kUrgent);
  const std::string remarks = Remarks(trial);
  if (remarks != trial.row.reason) {
    state_.SetState(trial, trial.row.state, remarks);
  }
}

void SearchDriver::Advance(TrialState& trial) {
  if (trial.ended) return;
  if (trial.has_work() && trial.ended_early) {
    // It has trained all it wanted to, the searcher asks for more.
    trial.operations.clear();
    trial.close_requested = trial.exit_told = true;
    Post(ExitedEarly{trial.index(), ExitReason::kUserStop});
  }
  if (trial.process) return Instruct(trial);
  if (trial.has_work()) {
    if (!state_.stopping) state_.queue.Add(trial.turn, trial.row.id.number);
  } else if (trial.close_requested) {
    Close(trial);
  }
}

void SearchDriver::Instruct(TrialState& trial) {
  ProcessState& process = *trial.process;
  // What it is to do next is seen to when it has ended.
  if (process.stop != StopCause::kNone) return;
  const TrialId id = trial.row.id;
  Launcher& launcher = state_.doors.launcher;
  if (trial.has_work() && !process.operation_sent) {
    process.operation_sent = true;
    process.last_step = state_.Now();
    const Length until{trial.operations.front(),
                       state_.setup.config.length_unit};
    state_.outbox.After(
        [&launcher, id, until] { launcher.Send(id, RunOperation{until}); });
  } else if (!trial.has_work() && trial.close_requested &&
             !process.close_sent) {
    process.close_sent = true;
    state_.outbox.After([&launcher, id] { launcher.Send(id, CloseTrial{}); });
  }
}

void SearchDriver::Close(TrialState& trial) {
  const bool whole = trial.trained() >= state_.searcher().max_length;
  std::string reason = Remarks(trial);
  if (!whole && !trial.ended_early) {
    const std::string why =
        state_.rungs.WhyStopped(trial.row.rung, trial.trained());
    reason = reason.empty() ? why : why + "; " + reason;
  }
  if (!trial.exit_told) Post(Closed{trial.index()});
  End(trial, whole || trial.ended_early ? State::kCompleted : State::kStopped,
      reason);
}

void SearchDriver::Abandon(TrialState& trial, ExitReason why,
                           const std::string& reason) {
  state_.last_error = "trial " + ToString(trial.row.id) + ": " + reason;
  if (!trial.exit_told) Post(ExitedEarly{trial.index(), why});
  End(trial, State::kError, reason);
}

void SearchDriver::Cancel(TrialState& trial) {
  if (!trial.exit_told) {
    Post(ExitedEarly{trial.index(), ExitReason::kUserStop});
  }
  End(trial, State::kCanceled, std::string(kKilledReason));
}

void SearchDriver::NoteEarlyEnd(TrialState& trial, const std::string& why) {
  trial.ended_early = true;
  trial.why_early = Truncate(ToValidUtf8(why), kMaxReason);
}

void SearchDriver::EndEarly(TrialState& trial) {
  if (!trial.exit_told) {
    trial.exit_told = true;
    Post(ExitedEarly{trial.index(), ExitReason::kUserStop});
  }
  End(trial, State::kCompleted, Remarks(trial));
}

void SearchDriver::End(TrialState& trial, State state,
                       const std::string& reason) {
  trial.operations.clear();
  state_.RecordBatches(trial);
  state_.SetState(trial, state, reason);
  state_.Delete(state_.keeper.End(trial.row.id));
  state_.TidyTree(trial.row.id);
  state_.Tell(trial);
  state_.trials.End(trial);
}

std::string SearchDriver::Remarks(const TrialState& trial) const {
  std::vector<std::string> remarks;
  if (trial.ended_early) remarks.push_back(EarlyReason(trial.why_early));
  if (trial.bad_metric) {
    const std::string& metric = state_.searcher().metric;
    const std::string remark =
        (metric.starts_with("validation") ? "" : "validation ") + metric +
        " was " + FormatNumber(*trial.bad_metric);
    // A recovered reason has it already.
    if (!trial.why_early.ends_with(remark)) remarks.push_back(remark);
  }
  return Join(remarks, "; ");
}

std::string SearchDriver::WhyPaused(const TrialState& trial) const {
  const std::string remarks = Remarks(trial);
  // One without work has no more than to wait for the others.
  if (!trial.has_work() || state_.why_stopping.empty()) return remarks;
  return remarks.empty() ? state_.why_stopping
                         : remarks + "; " + state_.why_stopping;
}

}  // namespace dtrain

// The half of Experiment between the searcher and the trials.

#include <algorithm>

#include "engine/run/experiment.h"

namespace dtrain {

void Experiment::Feed(const Event& event) {
  for (const Operation& operation : search_.Handle(event, outbox_)) {
    Apply(operation);
  }
}

void Experiment::Apply(const Operation& operation) {
  if (const auto* create = std::get_if<Create>(&operation)) {
    auto trial = std::make_unique<TrialState>();
    trial->row.id = {setup_.id, create->trial + 1};
    trial->row.request_id = create->request_id;
    trial->row.hparams = create->hparams;
    trial->row.seed = create->seed;
    trial->row.created = doors_.clock.now();
    outbox_.Add([row = trial->row](StoreWriter& w) { w.AddTrial(row); },
                Urgency::kUrgent);
    trials_.emplace(trial->row.id.number, std::move(trial));
    events_.push_back(Created{create->trial});
  } else if (const auto* more = std::get_if<ValidateAfter>(&operation)) {
    TrialState& trial = *trials_.at(more->trial + 1);
    trial.operations.push_back(more->length);
    Advance(trial);
  } else if (const auto* close = std::get_if<Close>(&operation)) {
    TrialState& trial = *trials_.at(close->trial + 1);
    trial.close_requested = true;
    Advance(trial);
  } else if (const auto* shutdown = std::get_if<Shutdown>(&operation)) {
    shutdown_ = true;
    failed_ = shutdown->failed;
  }
}

void Experiment::Advance(TrialState& trial) {
  if (trial.ended) return;
  const bool has_work = !trial.operations.empty();
  if (has_work && trial.ended_early) {
    // It has trained all it wanted to, the searcher asks for more.
    trial.operations.clear();
    trial.close_requested = true;
    trial.exit_told = true;
    events_.push_back(ExitedEarly{trial.index(), ExitReason::kUserStop});
    return Advance(trial);
  }
  if (trial.process == ProcessState::kNone) {
    if (has_work) return Enqueue(trial);
    if (!trial.close_requested) return;
    return EndTrial(trial);
  }
  if (trial.stop != StopCause::kNone ||
      trial.process != ProcessState::kRunning) {
    return;  // what it is to do next is seen to when it has ended or begun
  }
  const TrialId id = trial.row.id;
  if (has_work && !trial.operation_sent) {
    trial.operation_sent = true;
    trial.last_step = Now();
    const Length until{trial.operations.front(), setup_.config.length_unit};
    outbox_.After(
        [this, id, until] { doors_.launcher.Send(id, RunOperation{until}); });
  } else if (!has_work && trial.close_requested && !trial.close_sent) {
    trial.close_sent = true;
    outbox_.After([this, id] { doors_.launcher.Send(id, CloseTrial{}); });
  }
}

void Experiment::Enqueue(TrialState& trial) {
  const std::int64_t number = trial.row.id.number;
  const bool queued =
      std::find(ready_.begin(), ready_.end(), number) != ready_.end();
  if (stopping_ || queued || trial.restart_at) return;
  ready_.push_back(number);
}

void Experiment::EndTrial(TrialState& trial) {
  const bool whole = trial.trained >= setup_.config.searcher.max_length;
  trial.ended = true;
  SetState(trial,
           whole || trial.ended_early ? State::kCompleted : State::kStopped,
           trial.ended_early ? "ended early by itself"
           : whole           ? ""
                             : "stopped by the searcher");
  if (!trial.exit_told) events_.push_back(Closed{trial.index()});
  CollectCheckpoints();
}

void Experiment::AbandonTrial(TrialState& trial, ExitReason why,
                              const std::string& reason) {
  trial.ended = true;
  trial.operations.clear();
  SetState(trial, State::kError, reason);
  last_error_ = "trial " + ToString(trial.row.id) + ": " + reason;
  if (!trial.exit_told) events_.push_back(ExitedEarly{trial.index(), why});
  CollectCheckpoints();
}

void Experiment::SetState(TrialState& trial, State state,
                          const std::string& reason) {
  trial.row.state = state;
  trial.row.reason = reason;
  outbox_.Add(
      [id = trial.row.id, state, reason,
       now = doors_.clock.now()](StoreWriter& writer) {
        writer.SetTrialState(id, state, now, reason);
      },
      IsFinal(state) ? Urgency::kDurable : Urgency::kUrgent);
}

}  // namespace dtrain

#pragma once

#include <deque>
#include <string>

#include "engine/run/experiment_state.h"

namespace dtrain {

/// Stands between the searcher and the trials: feeds the events, hands the
/// operations to the trials, and ends trials. Every event is recorded in one
/// transaction with its operations and with the changes that caused it, so
/// that after a crash the searcher lacks none.
class SearchDriver {
 public:
  explicit SearchDriver(ExperimentState& state) : state_(state) {}

  /// The searcher will hear of it at the next `FeedAll`. REQUIRES: that comes
  /// before the outbox is flushed.
  void Post(Event event) { events_.push_back(std::move(event)); }
  void FeedAll();
  /// Goes on with a recorded trial.
  void Recover(TrialRow row);
  /// Brings the trials to where a recorded event and its operations left them.
  void Replay(const SearcherEventRow& row);

  /// Sees to it that the trial does what is wanted of it next.
  void Advance(TrialState& trial);
  /// The trial ended without doing all that was wanted.
  void Abandon(TrialState& trial, ExitReason why, const std::string& reason);
  /// A user wants the trial to end. REQUIRES: it has no process.
  void Cancel(TrialState& trial);
  /// The trial has trained all it wanted to; `why` as it says itself, or
  /// empty.
  void NoteEarlyEnd(TrialState& trial, const std::string& why);
  /// The trial asked to end, with success.
  void EndEarly(TrialState& trial);
  /// What a user should know of the trial, whatever comes of it.
  std::string Remarks(const TrialState& trial) const;
  /// The same and, where everything is being paused, because of what.
  std::string WhyPaused(const TrialState& trial) const;

 private:
  void Feed(const Event& event);
  void Take(const Event& event);
  TrialState* Give(const Event& cause, const Operation& operation);
  void AddTrial(const Create& create);
  void CloseAll();
  void RecordResult(TrialState& trial);
  void Instruct(TrialState& trial);
  void Close(TrialState& trial);
  void End(TrialState& trial, State state, const std::string& reason);

  ExperimentState& state_;
  std::deque<Event> events_;
};

}  // namespace dtrain

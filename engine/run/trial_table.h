#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "engine/run/trial_state.h"
#include "searchers/searcher.h"

namespace dtrain {

/// The trials of a search that have not ended, what the searcher wants of
/// them, and which have a process. Pure: it is brought to the same state by
/// the events and operations as they happen and as they were recorded.
class TrialTable {
 public:
  using Trials = std::map<std::int64_t, std::unique_ptr<TrialState>>;
  using Live = std::map<std::int64_t, TrialState*>;

  /// Adds a trial; one whose state is final is only counted, and the result is
  /// nullptr.
  TrialState* Add(TrialRow row);
  /// The trial of a number, or nullptr if it has ended.
  TrialState* Find(std::int64_t number);

  /// Notes what an event says of its trial, before the searcher hears of it.
  void Take(const Event& event);
  /// Notes what the searcher wants in answer to `cause`. Gives the trial
  /// concerned; nullptr where it has ended, and for Create and Shutdown.
  TrialState* Give(const Event& cause, const Operation& operation);

  /// Notes that the trial has trained to `length`, in the searcher's unit.
  void Reach(TrialState& trial, double length);

  /// The trial gets a process, which waits for its slot, or loses it.
  void StartProcess(TrialState& trial);
  std::unique_ptr<ProcessState> EndProcess(TrialState& trial);
  /// The trial has ended: it is not found any more. The object lives until
  /// `Sweep`, since its caller may still be at it. REQUIRES: no process.
  void End(TrialState& trial);
  void Sweep() { swept_.clear(); }

  /// Those that have not ended, by number.
  const Trials& trials() const { return trials_; }
  /// Those that have a process, by number: no more than there are slots.
  const Live& live() const { return live_; }
  std::int64_t created() const { return created_; }
  std::int64_t ended() const { return ended_; }
  /// Ended trials that finished their work or were stopped by the searcher.
  std::int64_t finished() const { return finished_; }
  /// Ended trials that a user killed.
  std::int64_t killed() const { return killed_; }
  /// Length trained by all trials together, in the searcher's unit.
  double trained_length() const { return trained_length_; }
  /// The part of it that ended trials have trained.
  double ended_length() const { return ended_length_; }

 private:
  void CountEnd(State state);

  Trials trials_;
  Live live_;
  std::vector<std::unique_ptr<TrialState>> swept_;
  std::int64_t created_ = 0;
  std::int64_t ended_ = 0;
  std::int64_t finished_ = 0;
  std::int64_t killed_ = 0;
  double trained_length_ = 0;
  double ended_length_ = 0;
  // Lengths of replayed operations of trials that had ended before, by number.
  std::map<std::int64_t, double> replayed_;
  std::int64_t turns_ = 0;  // given so far
};

}  // namespace dtrain

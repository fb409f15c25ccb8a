#pragma once

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/process/launcher.h"

namespace dtrain {

/// A Launcher without processes: notes what it is asked for in `calls()`, and
/// gives the events that a test queues by `Push`, in order, then Idle. A test
/// that wants trials to answer sets `on_start` or `on_send`, which may push.
class FakeLauncher : public Launcher {
 public:
  explicit FakeLauncher(std::size_t slots = 1) : slots_(slots) {}

  std::size_t FreeSlots() const override;
  void Start(const TrialSpec& spec) override;
  void Send(TrialId trial, const RunnerMessage& message) override;
  void RequestStop(TrialId trial) override;
  void Kill(TrialId trial) override;
  LaunchEvent Wait(Duration timeout) override;
  void Abort() override;

  void set_slots(std::size_t slots) { slots_ = slots; }
  /// Queues an event for Wait.
  void Push(LaunchEvent event) { events_.push_back(std::move(event)); }
  /// Queues what the trial says.
  void Say(TrialId trial, TrialMessage message) {
    Push(TrialSaid{trial, std::move(message)});
  }
  /// Queues the trial's end; its slot is free once Wait has given it.
  void Exit(TrialId trial, int exit_code = 0) {
    Push(TrialExited{.trial = trial, .exit_code = exit_code});
  }

  bool IsRunning(TrialId trial) const;
  /// "start 1.1", "send 1.1 {...}", "stop 1.1", "kill 1.1", "abort".
  const std::vector<std::string>& calls() const { return calls_; }
  const std::vector<TrialSpec>& started() const { return started_; }
  /// The most processes that there were at once.
  std::size_t most_running() const { return most_running_; }

  /// Events come one by one: never two before the caller has waited.
  bool one_at_a_time = false;
  /// Off for a benchmark, where `calls` and `started` would fill the memory.
  bool notes_calls = true;

  std::function<void(const TrialSpec&)> on_start;
  std::function<void(TrialId, const RunnerMessage&)> on_send;
  std::function<void(TrialId)> on_stop;
  std::function<void()> on_wait;

 private:
  void Note(std::string call);
  void PushKilled(TrialId trial);

  std::size_t slots_;
  std::size_t most_running_ = 0;
  std::vector<TrialId> running_;
  std::deque<LaunchEvent> events_;
  std::vector<std::string> calls_;
  std::vector<TrialSpec> started_;
};

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/process/launcher.h"

namespace dtrain {

/// A Launcher without processes. Records every request in `calls()` and returns
/// the events that a test queues by `Push`, in order, then Idle. `on_start` and
/// `on_send` let a test answer requests; they may push events.
class FakeLauncher : public Launcher {
 public:
  explicit FakeLauncher(std::size_t slots = 1) : slots_(slots) {}

  std::size_t FreeSlots() const override;
  std::size_t Capacity() const override { return slots_; }
  void Start(const TrialSpec& spec) override;
  void Send(TrialId trial, const RunnerMessage& message) override;
  void RequestStop(TrialId trial) override;
  void Kill(TrialId trial) override;
  std::optional<SlotWait> LongWait() override;
  LaunchEvent Wait(Duration timeout) override;
  void Abort() override;

  void set_slots(std::size_t slots) { slots_ = slots; }
  /// Queues an event for Wait.
  void Push(LaunchEvent event) { events_.push_back(std::move(event)); }
  /// Queues a message of the trial.
  void Report(TrialId trial, TrialMessage message) {
    Push(MessageReceived{trial, std::move(message)});
  }
  /// Queues the end of the trial's process; its slot is free once Wait has
  /// returned it.
  void Exit(TrialId trial, int exit_code = 0) {
    Push(TrialExited{.trial = trial, .exit_code = exit_code});
  }

  bool IsRunning(TrialId trial) const;
  /// "start 1.1", "send 1.1 {...}", "stop 1.1", "kill 1.1", "abort".
  const std::vector<std::string>& calls() const { return calls_; }
  const std::vector<TrialSpec>& started() const { return started_; }
  /// Maximum number of processes at the same time.
  std::size_t most_running() const { return most_running_; }

  /// Returns one event at a time: never two before the caller has waited.
  bool one_at_a_time = false;
  /// Off in a benchmark, where `calls` and `started` would fill the memory.
  bool notes_calls = true;

  std::function<void(const TrialSpec&)> on_start;
  std::function<void(TrialId, const RunnerMessage&)> on_send;
  std::function<void(TrialId)> on_stop;
  std::function<void()> on_wait;

 private:
  void RecordCall(std::string call);
  void PushKilled(TrialId trial);

  std::size_t slots_;
  std::size_t most_running_ = 0;
  std::vector<TrialId> running_;
  std::deque<LaunchEvent> events_;
  std::vector<std::string> calls_;
  std::vector<TrialSpec> started_;
};

/// Makes a FakeLauncher's trials behave like real ones: a started trial sends
/// Ready, trains to its operation's length, validates `loss`, saves a
/// checkpoint and completes the operation; it ends on a close or stop message.
/// Public fields change this behaviour.
class ScriptedTrials {
 public:
  explicit ScriptedTrials(FakeLauncher& launcher);

  /// Returns a number in [0, 1) that depends on the trial and the batches, for
  /// `loss`.
  static double Hash(std::int64_t trial, std::int64_t batches);

  /// Validation metrics at the end of each operation.
  MetricValues metrics = {{"loss", 0.5}, {"acc", 0.9}};
  /// Computes `loss` from trial and batches; replaces `metrics`.
  std::function<double(std::int64_t trial, std::int64_t batches)> loss;
  /// Number of training reports per operation.
  int reports = 1;
  /// Number of processes that crash right after their start.
  int crashes = 0;
  /// Processes start and then send nothing.
  bool silent = false;
  /// Numbers of trials that crash at every start, that report invalid
  /// hyperparameters, and that stop early in their first operation.
  std::set<std::int64_t> failing;
  std::set<std::int64_t> invalid;
  std::set<std::int64_t> early;
  /// Hyperparameters that no trial reads.
  std::vector<std::string> unread;

  // Steps of a trial, for tests that choose when to take them.
  void Begin(const TrialSpec& spec);
  void Work(TrialId trial, Length until);
  void End(TrialId trial, EndReason reason);

 private:
  MetricValues Measured(TrialId trial, std::int64_t batches) const;
  void Hear(TrialId trial, const RunnerMessage& message);

  FakeLauncher& launcher_;
  std::map<TrialId, std::int64_t> seq_;
};

}  // namespace dtrain

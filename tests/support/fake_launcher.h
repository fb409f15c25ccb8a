#pragma once

#include <algorithm>
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

  std::size_t FreeSlots() const override {
    return slots_ > running_.size() ? slots_ - running_.size() : 0;
  }

  void Start(const TrialSpec& spec) override {
    calls_.push_back("start " + ToString(spec.id));
    started_.push_back(spec);
    running_.push_back(spec.id);
    if (on_start) on_start(spec);
  }

  void Send(TrialId trial, const RunnerMessage& message) override {
    std::string line = Encode(message);
    line.pop_back();
    calls_.push_back("send " + ToString(trial) + " " + line);
    if (on_send && IsRunning(trial)) on_send(trial, message);
  }

  void RequestStop(TrialId trial) override {
    calls_.push_back("stop " + ToString(trial));
    if (on_stop && IsRunning(trial)) on_stop(trial);
  }

  void Kill(TrialId trial) override {
    calls_.push_back("kill " + ToString(trial));
    if (IsRunning(trial)) PushKilled(trial);
  }

  LaunchEvent Wait(Duration) override {
    if (on_wait) on_wait();
    if (events_.empty()) return Idle{};
    LaunchEvent event = std::move(events_.front());
    events_.pop_front();
    if (const auto* exited = std::get_if<TrialExited>(&event)) {
      std::erase(running_, exited->trial);
    }
    return event;
  }

  void Abort() override {
    calls_.push_back("abort");
    for (const TrialId trial : running_) PushKilled(trial);
  }

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

  bool IsRunning(TrialId trial) const {
    return std::find(running_.begin(), running_.end(), trial) != running_.end();
  }
  /// "start 1.1", "send 1.1 {...}", "stop 1.1", "kill 1.1", "abort".
  const std::vector<std::string>& calls() const { return calls_; }
  const std::vector<TrialSpec>& started() const { return started_; }

  std::function<void(const TrialSpec&)> on_start;
  std::function<void(TrialId, const RunnerMessage&)> on_send;
  std::function<void(TrialId)> on_stop;
  std::function<void()> on_wait;

 private:
  void PushKilled(TrialId trial) {
    Push(TrialExited{
        .trial = trial, .exit_code = -1, .signal = 9, .killed_by_us = true});
  }

  std::size_t slots_;
  std::vector<TrialId> running_;
  std::deque<LaunchEvent> events_;
  std::vector<std::string> calls_;
  std::vector<TrialSpec> started_;
};

}  // namespace dtrain

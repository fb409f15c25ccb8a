#include "tests/support/fake_launcher.h"

#include <algorithm>

namespace dtrain {

std::size_t FakeLauncher::FreeSlots() const {
  return slots_ > running_.size() ? slots_ - running_.size() : 0;
}

void FakeLauncher::Start(const TrialSpec& spec) {
  Note("start " + ToString(spec.id));
  if (notes_calls) started_.push_back(spec);
  running_.push_back(spec.id);
  most_running_ = std::max(most_running_, running_.size());
  if (on_start) on_start(spec);
}

void FakeLauncher::Send(TrialId trial, const RunnerMessage& message) {
  std::string line = Encode(message);
  line.pop_back();
  Note("send " + ToString(trial) + " " + line);
  if (on_send && IsRunning(trial)) on_send(trial, message);
}

void FakeLauncher::RequestStop(TrialId trial) {
  Note("stop " + ToString(trial));
  if (on_stop && IsRunning(trial)) on_stop(trial);
}

void FakeLauncher::Kill(TrialId trial) {
  Note("kill " + ToString(trial));
  if (IsRunning(trial)) PushKilled(trial);
}

LaunchEvent FakeLauncher::Wait(Duration timeout) {
  if (on_wait) on_wait();
  const bool later = one_at_a_time && timeout <= Duration(0);
  if (events_.empty() || later) return Idle{};
  LaunchEvent event = std::move(events_.front());
  events_.pop_front();
  if (const auto* exited = std::get_if<TrialExited>(&event)) {
    std::erase(running_, exited->trial);
  }
  return event;
}

void FakeLauncher::Abort() {
  Note("abort");
  for (const TrialId trial : running_) PushKilled(trial);
}

bool FakeLauncher::IsRunning(TrialId trial) const {
  return std::find(running_.begin(), running_.end(), trial) != running_.end();
}

void FakeLauncher::Note(std::string call) {
  if (notes_calls) calls_.push_back(std::move(call));
}

void FakeLauncher::PushKilled(TrialId trial) {
  Push(TrialExited{
      .trial = trial, .exit_code = -1, .signal = 9, .killed_by_us = true});
}

}  // namespace dtrain

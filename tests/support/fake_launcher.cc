#include "tests/support/fake_launcher.h"

#include <algorithm>

#include "engine/slots/slots.h"

namespace dtrain {
namespace {

std::string Uuid(TrialId trial, std::int64_t batches) {
  return std::to_string(10000000 + trial.number) + "-0000-4000-8000-" +
         std::to_string(100000000000 + batches);
}

}  // namespace

std::size_t FakeLauncher::FreeSlots() const {
  return slots_ > running_.size() ? slots_ - running_.size() : 0;
}

void FakeLauncher::Start(const TrialSpec& spec) {
  RecordCall("start " + ToString(spec.id));
  if (notes_calls) started_.push_back(spec);
  running_.push_back(spec.id);
  most_running_ = std::max(most_running_, running_.size());
  if (on_start) on_start(spec);
}

void FakeLauncher::Send(TrialId trial, const RunnerMessage& message) {
  std::string line = Encode(message);
  line.pop_back();
  RecordCall("send " + ToString(trial) + " " + line);
  if (on_send && IsRunning(trial)) on_send(trial, message);
}

void FakeLauncher::RequestStop(TrialId trial) {
  RecordCall("stop " + ToString(trial));
  if (on_stop && IsRunning(trial)) on_stop(trial);
}

void FakeLauncher::Kill(TrialId trial) {
  RecordCall("kill " + ToString(trial));
  if (IsRunning(trial)) PushKilled(trial);
}

std::optional<SlotWait> FakeLauncher::LongWait() { return std::nullopt; }

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
  RecordCall("abort");
  for (const TrialId trial : running_) PushKilled(trial);
}

bool FakeLauncher::IsRunning(TrialId trial) const {
  return std::find(running_.begin(), running_.end(), trial) != running_.end();
}

void FakeLauncher::RecordCall(std::string call) {
  if (notes_calls) calls_.push_back(std::move(call));
}

void FakeLauncher::PushKilled(TrialId trial) {
  Push(TrialExited{
      .trial = trial, .exit_code = -1, .signal = 9, .killed_by_us = true});
}

ScriptedTrials::ScriptedTrials(FakeLauncher& launcher) : launcher_(launcher) {
  launcher.on_start = [this](const TrialSpec& spec) { Begin(spec); };
  launcher.on_send = [this](TrialId trial, const RunnerMessage& message) {
    Hear(trial, message);
  };
  launcher.on_stop = [this](TrialId trial) { End(trial, EndReason::kStopped); };
}

double ScriptedTrials::Hash(std::int64_t trial, std::int64_t batches) {
  return static_cast<double>((trial * 7919 + batches * 31 + 104729) % 1009) /
         1009;
}

void ScriptedTrials::Begin(const TrialSpec& spec) {
  const std::int64_t number = spec.id.number;
  launcher_.Push(TrialStarted{.trial = spec.id, .pid = 4711});
  if (crashes > 0) {
    --crashes;
    return launcher_.Exit(spec.id, 3);
  }
  if (failing.contains(number)) return launcher_.Exit(spec.id, 3);
  if (invalid.contains(number)) return End(spec.id, EndReason::kInvalidHp);
  if (silent) return;
  launcher_.Report(spec.id, Ready{});
  seq_[spec.id] = 0;
  if (spec.until) Work(spec.id, *spec.until);
}

void ScriptedTrials::Work(TrialId trial, Length until) {
  const std::int64_t batches = until.count;
  std::int64_t& seq = seq_[trial];
  for (int i = reports - 1; i >= 0; --i) {
    launcher_.Report(trial, TrainingReport{.seq = ++seq,
                                           .batches = batches - i,
                                           .metrics = {{"loss", 1.5}},
                                           .unread = unread});
  }
  launcher_.Report(trial, ValidationReport{.seq = ++seq,
                                           .batches = batches,
                                           .metrics = Measured(trial, batches),
                                           .unread = unread});
  launcher_.Report(trial, CheckpointSaved{.seq = ++seq,
                                          .uuid = Uuid(trial, batches),
                                          .batches = batches,
                                          .bytes = 10});
  launcher_.Report(trial,
                   OperationCompleted{.seq = ++seq,
                                      .length = until,
                                      .batches = batches,
                                      .early = early.contains(trial.number)});
}

void ScriptedTrials::End(TrialId trial, EndReason reason) {
  launcher_.Report(
      trial, Finished{.reason = reason, .message = "bad x", .unread = unread});
  launcher_.Exit(trial);
}

MetricValues ScriptedTrials::Measured(TrialId trial,
                                      std::int64_t batches) const {
  if (!loss) return metrics;
  return {{"loss", loss(trial.number, batches)}};
}

void ScriptedTrials::Hear(TrialId trial, const RunnerMessage& message) {
  if (const auto* run = std::get_if<RunOperation>(&message)) {
    Work(trial, run->until);
  } else if (std::get_if<CloseTrial>(&message)) {
    End(trial, EndReason::kCompleted);
  } else if (std::get_if<StopTrial>(&message)) {
    End(trial, EndReason::kStopped);
  }
}

}  // namespace dtrain

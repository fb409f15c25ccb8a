#include "tests/support/scripted_trials.h"

namespace dtrain {
namespace {

std::string Uuid(TrialId trial, std::int64_t batches) {
  return std::to_string(10000000 + trial.number) + "-0000-4000-8000-" +
         std::to_string(100000000000 + batches);
}

}  // namespace

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
  launcher_.Say(spec.id, Ready{});
  seq_[spec.id] = 0;
  if (spec.until) Work(spec.id, *spec.until);
}

void ScriptedTrials::Work(TrialId trial, Length until) {
  const std::int64_t batches = until.count;
  std::int64_t& seq = seq_[trial];
  for (int i = reports - 1; i >= 0; --i) {
    launcher_.Say(trial, TrainingReport{.seq = ++seq,
                                        .batches = batches - i,
                                        .metrics = {{"loss", 1.5}},
                                        .unread = unread});
  }
  const MetricValues values = Measured(trial, batches);
  launcher_.Say(trial, ValidationReport{.seq = ++seq,
                                        .batches = batches,
                                        .metrics = values,
                                        .unread = unread});
  launcher_.Say(trial, CheckpointSaved{.seq = ++seq,
                                       .uuid = Uuid(trial, batches),
                                       .batches = batches,
                                       .bytes = 10});
  launcher_.Say(trial,
                OperationCompleted{.seq = ++seq,
                                   .length = until,
                                   .batches = batches,
                                   .metrics = values,
                                   .early = early.contains(trial.number)});
}

void ScriptedTrials::End(TrialId trial, EndReason reason) {
  launcher_.Say(
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

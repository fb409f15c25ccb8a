#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/support/fake_launcher.h"

namespace dtrain {

/// Makes a FakeLauncher's trials answer as real ones do: a started trial says
/// Ready, trains to its operation's length, validates `loss`, saves a
/// checkpoint and completes the operation; it ends when told to close or stop.
/// A test changes what it needs otherwise.
class ScriptedTrials {
 public:
  explicit ScriptedTrials(FakeLauncher& launcher) : launcher_(launcher) {
    launcher.on_start = [this](const TrialSpec& spec) { Begin(spec); };
    launcher.on_send = [this](TrialId trial, const RunnerMessage& message) {
      Hear(trial, message);
    };
    launcher.on_stop = [this](TrialId trial) {
      End(trial, EndReason::kStopped);
    };
  }

  /// The validation metrics that operations end with.
  MetricValues metrics = {{"loss", 0.5}, {"acc", 0.9}};
  /// This many processes crash before they have done anything.
  int crashes = 0;
  /// Processes start and then say nothing.
  bool silent = false;

 private:
  void Begin(const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 4711});
    if (crashes > 0) {
      --crashes;
      return launcher_.Exit(spec.id, 3);
    }
    if (silent) return;
    launcher_.Say(spec.id, Ready{});
    seq_[spec.id] = 0;
    if (spec.until) Work(spec.id, *spec.until);
  }

  void Work(TrialId trial, Length until) {
    const std::int64_t batches = until.count;
    std::int64_t& seq = seq_[trial];
    launcher_.Say(trial, TrainingReport{.seq = ++seq,
                                        .batches = batches,
                                        .metrics = {{"loss", 1.5}}});
    launcher_.Say(
        trial,
        ValidationReport{.seq = ++seq, .batches = batches, .metrics = metrics});
    launcher_.Say(trial, CheckpointSaved{.seq = ++seq,
                                         .uuid = Uuid(trial, batches),
                                         .batches = batches,
                                         .bytes = 10});
    launcher_.Say(trial, OperationCompleted{.seq = ++seq,
                                            .length = until,
                                            .batches = batches,
                                            .metrics = metrics});
  }

  void Hear(TrialId trial, const RunnerMessage& message) {
    if (const auto* run = std::get_if<RunOperation>(&message)) {
      Work(trial, run->until);
    } else if (std::get_if<CloseTrial>(&message)) {
      End(trial, EndReason::kCompleted);
    } else if (std::get_if<StopTrial>(&message)) {
      End(trial, EndReason::kStopped);
    }
  }

  void End(TrialId trial, EndReason reason) {
    launcher_.Say(trial, Finished{.reason = reason});
    launcher_.Exit(trial);
  }

  static std::string Uuid(TrialId trial, std::int64_t batches) {
    return "0000000" + std::to_string(trial.number) + "-0000-4000-8000-" +
           std::to_string(100000000000 + batches);
  }

  FakeLauncher& launcher_;
  std::map<TrialId, std::int64_t> seq_;
};

}  // namespace dtrain

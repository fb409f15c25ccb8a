#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/process/launcher.h"
#include "engine/run/search_driver.h"
#include "engine/run/trial_starter.h"

namespace dtrain {

/// Records what trials say and how their processes end, and tells the searcher
/// what concerns it.
class TrialListener {
 public:
  TrialListener(ExperimentState& state, SearchDriver& driver,
                TrialStarter& starter)
      : state_(state), driver_(driver), starter_(starter) {}

  void On(const TrialStarted& event);
  void On(const TrialSaid& event);
  void On(const TrialExited& event);
  void On(const Interrupted& event);
  void On(const Idle&) {}

  /// Kills the trial's process; what becomes of the trial depends on `cause`.
  void Fail(TrialState& trial, StopCause cause, const std::string& why);

 private:
  // trial_listener.cc
  void On(TrialState& trial, const Ready&);
  void On(TrialState& trial, const TrainingReport& report);
  void On(TrialState& trial, const ValidationReport& report);
  void On(TrialState& trial, const CheckpointSaved& saved);
  void On(TrialState& trial, const CheckpointFailed& failed);
  void On(TrialState& trial, const OperationCompleted& completed);
  void On(TrialState& trial, const ProfileReport& profile);
  void On(TrialState& trial, const Progress& progress);
  void On(TrialState& trial, const Finished& finished);
  void Acknowledge(TrialState& trial, std::int64_t seq);
  void NoteCounted(const TrialState& trial, const Progress& progress);
  void NoteReach(TrialState& trial, std::int64_t batches, double epoch);
  void NoteCounted(std::int64_t batches, double epoch);
  void SetCounted(Unit counted);
  void NoteBatches(TrialState& trial, std::int64_t batches);
  bool RecordValidation(TrialState& trial, double value, std::int64_t batches);
  std::optional<double> LastValidation(const TrialState& trial,
                                       std::int64_t batches) const;
  void SupersedeUntil(TrialState& trial, MetricKind kind, std::int64_t batches);
  void SupersedeEarlierRuns(TrialState& trial, ProcessState& process);
  void RefreshBest(TrialId trial);
  bool IsOwnModel() const { return !state_.setup.options.library.empty(); }
  void RecordUnread(const TrialState& trial,
                    const std::vector<std::string>& unread);
  void WarnOfUnread(const TrialState& trial,
                    const std::vector<std::string>& unread);
  void CheckFirstValidation(
      const TrialState& trial, std::int64_t batches,
      const std::optional<std::vector<std::string>>& unread);
  void RequireStoppingMetric(TrialState& trial, const MetricValues& metrics);
  std::optional<double> SearcherMetric(TrialState& trial,
                                       const MetricValues& metrics);

  // trial_exits.cc
  void HandleExit(TrialState& trial, ProcessState& process,
                  const TrialExited& event);
  void HandleIdleExit(TrialState& trial, const ProcessState& process,
                      const TrialExited& event);
  void HandleError(TrialState& trial, const ProcessState& process,
                   const std::string& reason);
  void HandleNoStart(TrialState& trial, const TrialExited& event);
  void HandleLastWord(TrialState& trial, ProcessState& process,
                      const TrialExited& event);
  void FallBack(TrialState& trial, const ProcessState& process);
  void Pause(TrialState& trial);
  std::string TrainedAgain(const TrialState& trial) const;

  ExperimentState& state_;
  SearchDriver& driver_;
  TrialStarter& starter_;
  std::string warned_of_;  // unread hyperparameters
};

}  // namespace dtrain

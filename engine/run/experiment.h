#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/config/experiment_config.h"
#include "engine/process/launcher.h"
#include "engine/run/checkpoint_keeper.h"
#include "engine/run/experiment_files.h"
#include "engine/run/failures.h"
#include "engine/run/outbox.h"
#include "engine/run/reported_units.h"
#include "engine/run/reporter.h"
#include "engine/run/run_stop.h"
#include "engine/run/search_log.h"
#include "engine/run/search_results.h"
#include "engine/run/trial_table.h"
#include "engine/store/store.h"

namespace dtrain {

/// Interfaces through which an Experiment does all its I/O; all must outlive
/// it.
struct ExperimentDeps {
  Store& store;
  Launcher& launcher;
  Reporter& reporter;
  Clock clock;
};

/// Parameters of an Experiment.
struct ExperimentSetup {
  std::int64_t id = 0;
  ExperimentConfig config;
  std::optional<SearcherConfig> created;  // before the search was extended
  std::uint32_t seed = 0;
  RunOptions options;
  RunInfo info;
  // Fails the experiment if its first trial has not read a searched
  // hyperparameter.
  bool refuse_unread = false;
  int ranks = 1;    // processes of a trial
  int threads = 1;  // intra-op threads of each
  // Of all trials; 0: as many as the launcher has, which changes, and the
  // trials use at most resources.max_slots.
  std::int64_t slots = 1;
  std::int64_t slots_per_trial = 1;
  double gpu_share = 1;  // of a GPU for a trial
  std::string advice;    // shown to the user at the start, or empty
  std::vector<std::string> warnings;  // shown likewise
  std::string boot_id;                // of this machine, recorded beside pids
  ExperimentPlaces places;
  Outbox::Sync sync = Outbox::Sync::kWhereDurable;
};

/// The loop of an experiment: passes events to the searcher, has its
/// operations executed by the launcher, and records every event before it has
/// an effect. Owns all state of the run, in values that do not know it. All I/O
/// goes through ExperimentDeps. The time taken by one message or event does not
/// grow with the number of trials. One thread; `Run` is called once.
class Experiment {
 public:
  Experiment(ExperimentSetup setup, ExperimentDeps deps);
  Experiment(const Experiment&) = delete;
  Experiment& operator=(const Experiment&) = delete;

  /// Runs until the search is over or all trials were paused. Throws
  /// Error(kStore); the trials are stopped before.
  RunResult Run();

  /// Number of transactions so far.
  std::int64_t transactions() const { return outbox_.transactions(); }

 private:
  // The loop: experiment.cc.
  void Step();
  void Tick();
  void Flush();
  void WriteRecords(bool all);
  void RecordAllBatches();
  void RecordBatches(const TrialState& trial);
  void RecordTime(Duration now);
  void CheckHangs();
  void CheckStall() const;
  bool IsOver() const;
  RunResult Finish();
  void RecordEnd(RunResult& result);
  void RecordAll();
  void Notify(std::string_view event, nlohmann::json facts);
  void SendNotifications();
  nlohmann::json BestFact() const;
  void StopAfterFailure();
  std::int64_t Slots() const;
  double TotalProgress() const;
  RunStatus Status() const;

  // Restoring the state from the record: experiment_recovery.cc.
  void Recover();
  void RecoverBest();
  void RecoverCheckpoints();
  void RecoverFiles(const std::vector<CheckpointRow>& recorded);
  void RecoverRequests();
  std::optional<double> RecordedMetric(TrialId trial,
                                       const BatchRange& range) const;
  void Adopt(TrialId trial, const std::vector<std::string>& uuids);

  // The searcher and the slots: experiment_trials.cc.
  void Post(Event event) { events_.push_back(std::move(event)); }
  void HandleEvents();
  void ApplyEvent(const Event& event);
  void AddTrial(const Create& create);
  void Reopen(const std::vector<Operation>& operations, bool retries);
  bool IsExtensionDue() const;
  void ExtendSearch();
  void EndSearch(std::string reason, TrialIndex trial = -1);
  void EndAtTarget(TrialId trial, double value);
  void CheckTarget();
  void RecordBestPoint(std::int64_t point);
  void EndCutOff(TrialState& trial);
  bool IsOverTime(const TrialState& trial) const;
  void EndByTime(TrialState& trial);
  void CheckTrialTimes();
  void RetryFailed();
  void CloseAll();
  void RecordResult(TrialState& trial);
  void Advance(TrialState& trial);
  void SendNext(TrialState& trial);
  void CloseFinished(TrialState& trial);
  void Abandon(TrialState& trial, ExitReason why, const std::string& text);
  void Cancel(TrialState& trial);
  void End(TrialState& trial, State state, const std::string& reason);
  void SetState(TrialState& trial, State state, const std::string& reason);
  void ReportEnd(const TrialState& trial);
  std::string Remarks(const TrialState& trial) const;
  std::string PauseReason(const TrialState& trial) const;
  void DeleteCheckpoints(const CheckpointKeeper::Rows& checkpoints);
  void CleanWorkingTree(TrialId trial);
  std::size_t FreeSlots() const;
  void Schedule();
  void StopProcess(TrialState& trial, StopCause cause);
  void Start(TrialState& trial);

  // Messages of trials: experiment_messages.cc.
  void On(const TrialStarted& event);
  void On(const MessageReceived& event);
  void On(const SystemSampled& event);
  void On(const GpuRestored& event);
  void On(const WorkersFailed& event);
  void On(const Idle&) {}
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
  void SetBatches(TrialState& trial, std::int64_t batches);
  void SetPosition(TrialState& trial, const ReportedAt& at);
  void ReportUnit(bool has_changed);
  bool RecordValidation(TrialState& trial, double value, const ReportedAt& at);
  std::optional<double> FindResult(TrialState& trial,
                                   const OperationCompleted& completed);
  void SupersedeUntil(TrialState& trial, MetricKind kind, std::int64_t batches);
  void SupersedeEarlierRuns(TrialState& trial, TrialProcess& process);
  void Supersede(const TrialRow& trial, MetricKind kind,
                 const BatchRange& range);
  void RefreshBest(TrialId trial);
  void ReadBest();
  void WarnOfUnread(const TrialState& trial,
                    const std::vector<std::string>& unread);
  void CheckFirstValidation(
      const TrialState& trial, std::int64_t batches,
      const std::optional<std::vector<std::string>>& unread);
  std::optional<double> SearcherMetric(TrialState& trial,
                                       const MetricValues& metrics);

  // Ends of processes: experiment_exits.cc.
  void On(const TrialExited& event);
  void Fail(TrialState& trial, StopCause cause, const std::string& why);
  void HandleExit(TrialState& trial, TrialProcess& process,
                  const TrialExited& event);
  void HandleIdleExit(TrialState& trial, const TrialProcess& process,
                      const TrialExited& event);
  void HandleError(TrialState& trial, const TrialProcess& process,
                   const std::string& reason);
  void HandleNoStart(TrialState& trial, const TrialExited& event);
  void HandleFinished(TrialState& trial, TrialProcess& process,
                      const TrialExited& event);
  void HandleCrash(TrialState& trial, const TrialProcess& process,
                   const TrialExited& event);
  void CountEarlyFailure(const TrialState& trial, const std::string& cause);
  void ReportGpuFault(const GpuFault& fault);
  bool StopIfDiskIsFull(const TrialState& trial, const std::string& why,
                        const std::vector<std::string>& last_lines);
  bool StopIfUnwritable(const TrialState& trial, const std::string& why,
                        bool has_run);
  void FallBack(TrialState& trial, const TrialProcess& process);
  void RepeatLength(TrialState& trial, const CheckpointRow& last,
                    const std::string& why);
  void ResumeEarlier(TrialState& trial, const std::string& why);
  void Pause(TrialState& trial);
  void Preempt(TrialState& trial);

  // Stopping everything: experiment.cc.
  void On(const Interrupted& event);
  void CheckDiskWait();
  void StopAll(const std::string& why);
  void StopOnError(const Error& problem);
  bool StopIfLost(bool with_storage = true);
  void FailExperiment(const std::string& why);
  void ReadPlan();
  void PollRequests();
  void Execute(const RequestRow& request);
  void KillTrial(const RequestRow& request);
  void CancelAll(bool now);
  void FinishRequest(std::int64_t request);

  Duration Now() const { return deps_.clock.monotonic(); }
  const SearcherConfig& searcher() const { return plan_; }
  SearchOutcome Outcome() const;

  const ExperimentSetup setup_;
  const ExperimentDeps deps_;
  SearcherConfig plan_;  // as recorded now: other processes extend it
  nlohmann::json recorded_searcher_;  // of which it was read
  Outbox outbox_;
  ExperimentFiles files_;
  RunTime time_;
  RunStop stop_;
  RunRequests requests_;

  // The search.
  SearchLog search_;
  std::deque<Event> events_;  // not yet passed to the searcher
  TrialTable trials_;
  StartQueue queue_;
  SearchProgress progress_;
  Rungs rungs_;
  ReportedLengths lengths_;

  // Results.
  CheckpointKeeper keeper_;
  BestTrial best_;
  Failures failures_;
  RequiredMetrics metrics_;
  UnreadHparams unread_;
  bool explained_repeat_ = false;
  std::set<std::int64_t> unrecorded_batches_;  // trials
};

}  // namespace dtrain

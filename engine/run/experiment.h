#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "engine/run/experiment_setup.h"
#include "engine/run/outbox.h"
#include "engine/run/search.h"
#include "engine/run/trial_state.h"

namespace dtrain {

/// The experiment loop: asks the searcher what to do, has it done by the
/// launcher, and records everything before anything follows from it. Pure but
/// for its doors. One thread; `Run` is called once.
class Experiment {
 public:
  Experiment(ExperimentSetup setup, ExperimentDoors doors);

  /// Runs until the search is over, or everything was paused. Throws
  /// Error(kStore); the trials are stopped before.
  RunResult Run();

 private:
  using Urgency = Outbox::Urgency;

  // experiment_start.cc: going on from the record, and starting trials.
  void Recover();
  void StartTrial(TrialState& trial);
  TrialSpec SpecOf(const TrialState& trial) const;

  // experiment.cc: the loop.
  void Step();
  void Tick();
  void Schedule();
  void CheckHangs();
  void CheckTimeLimit();
  void StopAll();
  void Flush(bool all = false);
  bool Over() const;
  bool Alive() const;
  RunResult Finish();
  void StopAfterFailure();
  Duration Now() const { return doors_.clock.monotonic(); }

  // experiment_search.cc: between the searcher and the trials.
  void Feed(const Event& event);
  void Apply(const Operation& operation);
  void Advance(TrialState& trial);
  void EndTrial(TrialState& trial);
  void AbandonTrial(TrialState& trial, ExitReason why,
                    const std::string& reason);
  void Enqueue(TrialState& trial);
  void SetState(TrialState& trial, State state, const std::string& reason = "");

  // experiment_events.cc: what trials say.
  void On(const TrialStarted& event);
  void On(const TrialSaid& event);
  void On(const Idle&) {}
  void On(TrialState& trial, const Ready&);
  void On(TrialState& trial, const TrainingReport& report);
  void On(TrialState& trial, const ValidationReport& report);
  void On(TrialState& trial, const CheckpointSaved& saved);
  void On(TrialState& trial, const OperationCompleted& completed);
  void On(TrialState& trial, const Progress& progress);
  void On(TrialState& trial, const Finished& finished);
  void Acknowledge(TrialState& trial, std::int64_t seq);
  bool RecordValidation(TrialState& trial, double value, std::int64_t batches);
  std::optional<double> SearcherMetric(TrialState& trial,
                                       const MetricValues& metrics);
  bool NoteBest(TrialState& trial, double value, std::int64_t batches);

  // experiment_exits.cc: how processes end.
  void On(const TrialExited& event);
  void On(const Interrupted& event);
  void HandleExit(TrialState& trial, const TrialExited& event);
  void HandleError(TrialState& trial, const std::string& reason);
  void Fail(TrialState& trial, StopCause cause, const std::string& why);
  void CollectCheckpoints();

  // experiment_status.cc: for the reporter.
  RunStatus Status() const;
  double TotalProgress() const;

  TrialState& Find(TrialId id) { return *trials_.at(id.number); }

  ExperimentSetup setup_;
  ExperimentDoors doors_;
  Search search_;
  Outbox outbox_;
  std::map<std::int64_t, std::unique_ptr<TrialState>> trials_;  // by number
  std::deque<Event> events_;        // to be fed to the searcher
  std::deque<std::int64_t> ready_;  // trials that want a process, in turn
  std::set<std::int64_t> changed_;  // trials whose batches are not recorded
  bool shutdown_ = false;           // the searcher is done
  bool failed_ = false;             // … because every trial errored
  bool stopping_ = false;           // everything is being paused
  int signal_ = 0;
  bool timed_out_ = false;
  std::optional<BestValidation> best_;
  std::int64_t best_trial_ = 0;
  std::string last_error_;
  double progress_ = 0;
  Duration start_{0};
  Duration last_status_{0};
};

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/experiment_state.h"
#include "engine/run/requests.h"
#include "engine/run/search_driver.h"
#include "engine/run/trial_listener.h"
#include "engine/run/trial_starter.h"
#include "searchers/search_plan.h"

namespace dtrain {

/// The loop of an experiment: asks the searcher for operations, lets the
/// launcher run them, and records every event before it has an effect. Reaches
/// the outside only through ExperimentDoors. One thread; `Run` is called once.
class Experiment {
 public:
  Experiment(ExperimentSetup setup, ExperimentDoors doors);

  /// Runs until the search is over, or everything was paused. Throws
  /// Error(kStore); the trials are stopped before.
  RunResult Run();

  /// Transactions so far.
  std::int64_t transactions() const { return state_.outbox.transactions(); }

 private:
  // Resuming from the record.
  void Recover();
  void RecoverBest();
  void RecoverCheckpoints();
  void RecoverFiles(const std::vector<CheckpointRow>& recorded);
  std::optional<double> RecordedMetric(TrialId trial,
                                       std::int64_t batches) const;
  void Adopt(TrialId trial, const std::string& uuid);

  // The loop.
  void Step();
  void ForgiveDelay(Duration delay);
  void Tick();
  void Flush(bool all = false);
  void Record(bool all);
  void RecordChangedBatches();
  void RecordTime(Duration now);
  void CheckHangs();
  void CheckTimeLimit();
  void CheckDiskWait();
  void CheckPlaces(Duration now);
  void CheckStall() const;
  bool Over() const;
  State EndState() const;
  std::string WhyCanceled() const;
  RunResult Finish();
  void RecordEnd(const RunResult& result);
  void StopAfterFailure();

  // For the reporter.
  RunStatus Status() const;
  double TotalProgress() const;

  ExperimentState state_;
  SearchDriver driver_;
  TrialStarter starter_;
  TrialListener listener_;
  Requests requests_;
  SearchPlan plan_;
  bool timed_out_ = false;
  double progress_ = 0;
  double earlier_seconds_ = 0;   // of earlier runs, as recorded
  double recorded_seconds_ = 0;  // of this run
  Duration recorded_at_{0};      // when that was
  Duration start_{0};
  Duration last_status_{0};
  Duration checked_at_{0};  // whether the store is in its place
};

}  // namespace dtrain

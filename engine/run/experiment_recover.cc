// How Experiment goes on from the record. Takes O(events).

#include <utility>
#include <vector>

#include "engine/run/experiment.h"

namespace dtrain {

void Experiment::Recover() {
  const std::int64_t id = state_.setup.id;
  const Store& store = state_.doors.store;
  const auto events = store.SearcherEvents(id, 0);
  state_.search.Recover(store.LatestSnapshot(id), events);
  for (TrialRow& row : store.Trials(id)) driver_.Recover(std::move(row));
  for (const SearcherEventRow& row : events) driver_.Replay(row);
  RecoverBest();
  RecoverCheckpoints();
  std::vector<TrialState*> unfinished;
  for (const auto& [number, trial] : state_.trials.trials()) {
    unfinished.push_back(trial.get());
  }
  for (TrialState* trial : unfinished) {
    driver_.Advance(*trial);
    if (trial->ended || trial->row.state != State::kRunning) continue;
    // Its process went with the runner.
    state_.SetState(*trial, State::kPaused, driver_.Remarks(*trial));
    state_.outbox.Add(
        [trial = trial->row.id](StoreWriter& writer) {
          writer.ClearTrialProcess(trial, /*seconds=*/0);
        },
        Outbox::Urgency::kBatched);
  }
}

void Experiment::RecoverBest() {
  const Store& store = state_.doors.store;
  const std::int64_t id = state_.setup.id;
  const auto experiment = store.Experiment(id);
  if (!experiment) return;
  progress_ = experiment->row.progress;
  const auto& best = experiment->row.best;
  if (!best) return;
  const auto trial = store.Trial({id, experiment->row.best_trial});
  if (trial) state_.best.Set(*best, *trial);
}

void Experiment::RecoverCheckpoints() {
  std::vector<TrialId> ended;
  for (CheckpointRow& row : state_.doors.store.Checkpoints(state_.setup.id)) {
    if (row.state != "COMPLETED") continue;
    const TrialId trial = row.trial;
    const bool is_ended = state_.trials.Find(trial.number) == nullptr;
    if (is_ended && (ended.empty() || ended.back() != trial)) {
      ended.push_back(trial);
    }
    state_.Delete(state_.keeper.Add(std::move(row)));
  }
  for (const TrialId trial : ended) state_.Delete(state_.keeper.End(trial));
}

}  // namespace dtrain

// How Experiment goes on from the record. Takes O(events).

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/run/checkpoint_files.h"
#include "engine/run/experiment.h"
#include "engine/run/rungs.h"
#include "engine/store/file_tree.h"

namespace dtrain {

void Experiment::Recover() {
  const std::int64_t id = state_.setup.id;
  const Store& store = state_.doors.store;
  const auto events = store.SearcherEvents(id, 0);
  state_.search.Recover(store.LatestSnapshot(id), events);
  for (TrialRow& row : store.Trials(id)) {
    state_.validated =
        state_.validated || (row.latest && row.latest->batches > 0);
    driver_.Recover(std::move(row));
  }
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
  earlier_seconds_ = experiment->row.seconds;
  const auto& best = experiment->row.best;
  if (!best) return;
  const auto trial = store.Trial({id, experiment->row.best_trial});
  if (trial) state_.best.Set(*best, *trial);
}

void Experiment::RecoverCheckpoints() {
  const auto recorded =
      state_.doors.store.Checkpoints(state_.setup.id, /*deleted=*/true);
  std::vector<TrialId> ended;
  for (const CheckpointRow& row : recorded) {
    if (row.state != "COMPLETED") continue;
    const TrialId trial = row.trial;
    const bool is_ended = state_.trials.Find(trial.number) == nullptr;
    if (is_ended && (ended.empty() || ended.back() != trial)) {
      ended.push_back(trial);
    }
    state_.Delete(state_.keeper.Add(row));
  }
  for (const TrialId trial : ended) state_.Delete(state_.keeper.End(trial));
  RecoverFiles(recorded);
}

// A trial that outlived its runner for a moment may have finished a checkpoint
// that nobody recorded, or left one half done. What was being deleted goes.
void Experiment::RecoverFiles(const std::vector<CheckpointRow>& recorded) {
  std::map<std::string, std::string> states;
  for (const CheckpointRow& row : recorded) states[row.uuid] = row.state;
  const StoreLayout& layout = state_.doors.store.layout();
  for (const auto& path : TrashIn(layout.Experiment(state_.setup.id))) {
    RemoveQuietly(path);
  }
  for (const auto& [number, trial] : state_.trials.trials()) {
    const TrialId id = trial->row.id;
    const std::filesystem::path directory = state_.CheckpointsOf(id);
    // A power cut takes the metrics that were recorded last, but not the files
    // of the checkpoint after them: who went on from there would not measure
    // them again.
    const bool saw_no_reboot = trial->row.boot_id == state_.setup.boot_id;
    for (const std::string& uuid : TidyCheckpoints(directory)) {
      const auto state = states.find(uuid);
      if (state == states.end() && saw_no_reboot) {
        Adopt(id, uuid);
      } else if (state == states.end() || state->second == "DELETED") {
        RemoveQuietly(directory / uuid);
      }
    }
  }
}

// What the trial's validation at `batches` gave, if that is recorded. The trial
// does not report it again, so the keeper learns it here.
std::optional<double> Experiment::RecordedMetric(TrialId trial,
                                                 std::int64_t batches) const {
  std::optional<double> value;
  state_.doors.store.ForEachMetric({.experiment = trial.experiment,
                                    .trial = trial.number,
                                    .kind = MetricKind::kValidation,
                                    .name = state_.searcher().metric},
                                   [&](const MetricRow& row) {
                                     if (row.batches == batches) {
                                       value = row.value;
                                     }
                                   });
  return value;
}

void Experiment::Adopt(TrialId trial, const std::string& uuid) try {
  const CheckpointSummary found =
      SummarizeCheckpoint((state_.CheckpointsOf(trial) / uuid).string());
  CheckpointRow row{.uuid = uuid,
                    .trial = trial,
                    .state = "COMPLETED",
                    .batches = found.batches,
                    .epoch = found.epoch,
                    .bytes = found.bytes,
                    .files = found.files,
                    .metric = RecordedMetric(trial, found.batches),
                    .storage = state_.setup.storage,
                    .time = state_.doors.clock.now()};
  state_.outbox.Add([row](StoreWriter& writer) { writer.AddCheckpoint(row); },
                    Outbox::Urgency::kDurable);
  state_.doors.reporter.OnNotice(
      LogLevel::kInfo, "trial " + ToString(trial) + ": has a checkpoint at " +
                           PositionText(row.batches, state_.counted) +
                           " from after the end of its runner, " + uuid);
  state_.Delete(state_.keeper.Add(std::move(row)));
} catch (const Error&) {
  // Not whole: of no use, and `dtrain gc` removes it.
}

}  // namespace dtrain

#include "engine/run/experiment_state.h"

#include <system_error>
#include <utility>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/context/working_tree.h"
#include "engine/os/uuid.h"
#include "engine/store/checkpoint_storage.h"
#include "engine/store/file_tree.h"
#include "searchers/registry.h"

namespace dtrain {

TreeTidier::~TreeTidier() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void TreeTidier::Add(const std::filesystem::path& master,
                     std::filesystem::path tree) {
  {
    const std::lock_guard lock(mutex_);
    trees_.push_back(std::move(tree));
  }
  changed_.notify_one();
  if (thread_.joinable()) return;
  try {
    thread_ = std::thread([this, master] { Run(master); });
  } catch (const std::system_error&) {
    // No room for a thread now. Those that wait are tidied with a later one,
    // or stay for `dtrain gc`.
  }
}

void TreeTidier::Run(const std::filesystem::path& master) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return over_ || !trees_.empty(); });
    if (trees_.empty()) return;
    const std::filesystem::path tree = std::move(trees_.front());
    trees_.pop_front();
    lock.unlock();
    TidyWorkingTree(master, tree);
    lock.lock();
  }
}

ExperimentState::ExperimentState(ExperimentSetup with, ExperimentDoors through)
    : setup(std::move(with)),
      doors(std::move(through)),
      search(MakeSearcher(searcher(), setup.config.hyperparameters, setup.seed),
             setup.id),
      outbox(setup.sync),
      keeper(setup.config.checkpoints, searcher().smaller_is_better),
      best(searcher().smaller_is_better),
      rungs(searcher(), setup.config.length_unit),
      unread(setup.config.hyperparameters),
      counted(setup.info.counted) {}

void ExperimentState::SetState(TrialState& trial, State state,
                               const std::string& reason) {
  trial.row.state = state;
  trial.row.reason = reason;
  outbox.Add(
      [id = trial.row.id, state, reason,
       now = doors.clock.now()](StoreWriter& writer) {
        writer.SetTrialState(id, state, now, reason);
      },
      IsFinal(state) ? Outbox::Urgency::kDurable : Outbox::Urgency::kBatched);
}

void ExperimentState::RecordBatches(const TrialState& trial) {
  if (changed.erase(trial.row.id.number) == 0) return;
  outbox.Add([id = trial.row.id, batches = trial.row.batches](
                 StoreWriter& writer) { writer.SetTrialBatches(id, batches); },
             Outbox::Urgency::kBatched);
}

void ExperimentState::Tell(const TrialState& trial) {
  TrialRow row = trial.row;
  // It goes on from there, not from as far as it was before it failed.
  if (!IsFinal(row.state)) row.batches = trial.position;
  outbox.After([this, row = std::move(row), lines = trial.last_lines] {
    doors.reporter.OnTrialEnded(row, lines);
  });
}

std::string ExperimentState::WhyLost(bool with_storage) const {
  std::string why = doors.store.WhyMoved();
  std::error_code error;
  if (why.empty() && !setup.directory.empty() &&
      !std::filesystem::is_directory(setup.directory, error)) {
    why = setup.directory.string() + ": is no longer there; put it back";
  }
  if (why.empty() && with_storage && !setup.storage_directory.empty()) {
    why = WhyStorageFails(setup.storage_directory);
  }
  return why;
}

void ExperimentState::Delete(const CheckpointKeeper::Rows& checkpoints) {
  for (const CheckpointRow& row : checkpoints) {
    best.NoteDeleted(row.uuid);
    outbox.Add(
        [uuid = row.uuid](StoreWriter& writer) {
          writer.SetCheckpointState(uuid, "DELETED");
        },
        // A power cut must not bring back the row of files that are gone.
        Outbox::Urgency::kDurable);
    const auto path = doors.store.PathOf(row);
    outbox.After([path] { RemoveQuietly(path); });
  }
}

void ExperimentState::TidyTree(TrialId trial) {
  if (!setup.stored_context) return;
  outbox.After([this, tree = doors.store.layout().WorkingTree(trial)] {
    tidier.Add(setup.context, tree);
  });
}

std::vector<std::string> TidyCheckpoints(
    const std::filesystem::path& directory) {
  std::vector<std::string> finished;
  for (const std::string& name : NamesIn(directory)) {
    if (IsUuid(name)) {
      finished.push_back(name);
    } else if (name.ends_with(kUnfinishedSuffix) ||
               name.ends_with(kTrashSuffix)) {
      RemoveQuietly(directory / name);
    }
  }
  return finished;
}

void RemoveQuietly(const std::filesystem::path& checkpoint) {
  try {
    RemoveTree(checkpoint);
  } catch (const Error&) {
    // Told where it matters: by `dtrain gc`.
  }
}

}  // namespace dtrain

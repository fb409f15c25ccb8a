#include "engine/run/trial_starter.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "searchers/search_plan.h"

namespace dtrain {
namespace {

// The checkpoint that trials begin from: the experiment's own, which stays.
std::filesystem::path SourceOf(const ExperimentState& state) {
  const StoreLayout& layout = state.doors.store.layout();
  const std::string& uuid = state.setup.config.source_checkpoint_uuid;
  const auto own = layout.Source(state.setup.id, uuid);
  std::error_code error;
  if (std::filesystem::is_directory(own, error)) return own;
  // Earlier versions kept none.
  const CheckpointRow row = state.doors.store.CheckpointByPrefix(uuid);
  return state.doors.store.PathOf(row);
}

}  // namespace

TrialStarter::TrialStarter(ExperimentState& state)
    : state_(state),
      most_at_once_(static_cast<std::size_t>(TrialsAtOnce(
          state.searcher(), state.setup.config.hyperparameters))) {}

std::size_t TrialStarter::FreeSlots() const {
  const std::size_t live = state_.trials.live().size();
  const std::size_t allowed = most_at_once_ > live ? most_at_once_ - live : 0;
  const std::size_t free = std::min(allowed, state_.doors.launcher.FreeSlots());
  const std::size_t held = state_.queue.held();
  return free > held ? free - held : 0;
}

void TrialStarter::Schedule() {
  if (state_.stopping) return;
  StartQueue& queue = state_.queue;
  queue.Wake(state_.Now());
  while (queue.size() > 0 && FreeSlots() > 0 && !state_.outbox.urgent()) {
    TrialState* trial = state_.trials.Find(queue.Pop());
    if (trial == nullptr || !trial->has_work()) continue;
    if (StopIfLost()) return;
    Start(*trial);
  }
  if (queue.size() > 0 && !state_.outbox.urgent()) MakeRoom();
}

// Trials without an operation give their slots to those that have work.
void TrialStarter::MakeRoom() {
  std::size_t wanted = state_.queue.size();
  for (const auto& [number, trial] : state_.trials.live()) {
    const ProcessState& process = *trial->process;
    // Its slot will be free in a moment anyway.
    const bool ending = process.stop != StopCause::kNone || process.close_sent;
    if (ending && wanted > 0) --wanted;
  }
  for (const auto& [number, trial] : state_.trials.live()) {
    if (wanted == 0) return;
    if (!trial->idle()) continue;
    --wanted;
    trial->process->stop = StopCause::kPause;
    state_.doors.launcher.RequestStop(trial->row.id);
  }
}

void TrialStarter::Start(TrialState& trial) {
  state_.trials.StartProcess(trial);
  trial.process->operation_sent = true;
  const TrialSpec spec = SpecOf(trial);
  const CheckpointRow* latest = state_.keeper.Latest(trial.row.id);
  const std::int64_t from = latest == nullptr ? 0 : latest->batches;
  ProcessState& process = *trial.process;
  process.restored = spec.restore;
  process.from = trial.position = from;
  process.passed = {from + 1, from + 1};
  if (trial.row.batches > from) {
    process.earlier = trial.row.batches;
    state_.outbox.Add(
        [id = trial.row.id, from](StoreWriter& writer) {
          writer.TruncateProfile(id, from);
        },
        Outbox::Urgency::kBatched);
  }
  if (!state_.outbox.urgent()) return state_.doors.launcher.Start(spec);
  state_.outbox.After([this, spec] {
    state_.doors.launcher.Start(spec);
    // Everything may have been asked to stop since.
    if (state_.stopping) state_.doors.launcher.RequestStop(spec.id);
  });
}

TrialSpec TrialStarter::SpecOf(const TrialState& trial) const {
  const ExperimentConfig& config = state_.setup.config;
  const StoreLayout& layout = state_.doors.store.layout();
  TrialSpec spec;
  spec.id = trial.row.id;
  spec.run = trial.row.runs;
  spec.entrypoint = EntrypointText(config);
  spec.library = state_.setup.options.library;
  if (const auto* words =
          std::get_if<std::vector<std::string>>(&config.entrypoint)) {
    spec.command = *words;
    spec.context = state_.setup.context;
    if (state_.setup.stored_context) {
      spec.master = spec.context;
      spec.context = layout.WorkingTree(trial.row.id).string();
    }
  }
  spec.hparams = trial.row.hparams;
  spec.data = config.data;
  spec.seed = trial.row.seed;
  spec.world_size = state_.setup.ranks;
  spec.threads = state_.setup.threads;
  spec.directory = layout.Trial(trial.row.id).string();
  if (!state_.setup.storage.empty()) {
    spec.checkpoints = state_.CheckpointsOf(trial.row.id).string();
  }
  if (const CheckpointRow* latest = state_.keeper.Latest(trial.row.id)) {
    spec.restore = latest->uuid;
  } else if (!config.source_checkpoint_uuid.empty()) {
    spec.warm_start = SourceOf(state_).string();
  }
  for (const std::int64_t length : trial.completed) {
    spec.completed.push_back({length, config.length_unit});
  }
  spec.until = Length{trial.operations.front(), config.length_unit};
  spec.settings = config.training;
  spec.settings.searcher_metric = config.searcher.metric;
  spec.settings.smaller_is_better = config.searcher.smaller_is_better;
  return spec;
}

void TrialStarter::StopBecauseOf(const Error& problem) {
  if (state_.problem) return;
  state_.problem = problem;
  state_.doors.reporter.OnNotice(
      LogLevel::kError,
      std::string(problem.what()) + "; pausing the experiment");
  if (!state_.stopping) StopAll("stopped: " + std::string(problem.what()));
}

bool TrialStarter::StopIfLost(bool with_storage) {
  const std::string why = state_.WhyLost(with_storage);
  if (why.empty()) return false;
  StopBecauseOf(Error(ErrorKind::kStore, why));
  return true;
}

void TrialStarter::FailBecauseOf(const std::string& why) {
  if (!state_.failure.empty()) return;
  state_.failure = why;
  StopAll("the experiment failed: " + why);
}

void TrialStarter::StopAll(const std::string& why) {
  state_.stopping = true;
  state_.why_stopping = why;
  state_.queue.Clear();
  for (const auto& [number, trial] : state_.trials.live()) {
    StopCause& stop = trial->process->stop;
    if (stop == StopCause::kNone) stop = StopCause::kRunner;
    state_.doors.launcher.RequestStop(trial->row.id);
  }
}

}  // namespace dtrain

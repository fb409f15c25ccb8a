// Applying the model of a checkpoint to data, for `evaluate` and `predict`.
//
// The checkpoint's trial runs again in a process of its own, with a task other
// than training: it loads the weights, processes the data split or the images,
// and writes its results to a temporary directory. Configuration and
// hyperparameters are the recorded ones; only slots, data directory and
// precision can differ.

#include "engine/app/checkpoint_use.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>
#include <vector>

#include <unistd.h>

#include "engine/app/checkpoints.h"
#include "engine/app/config_file.h"
#include "engine/app/entrypoint_check.h"
#include "engine/app/notices.h"
#include "engine/app/record_experiment.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/config/read_config.h"
#include "engine/os/installation.h"
#include "engine/plugin/model_library.h"
#include "engine/process/local_launcher.h"
#include "engine/run/reported_units.h"
#include "engine/run/runner.h"
#include "engine/slots/slots.h"

namespace dtrain {
namespace {

// Returns one slot, unless several are requested by name; of a GPU, the share
// that the experiment's trials used.
std::string SlotsPerTrial(const ResourcesConfig& trained,
                          const std::string& slots) {
  const bool many = slots.starts_with("cpu:") || slots.starts_with("gpu:") ||
                    slots.find(',') != std::string::npos;
  if (many) return "all";
  return FormatNumber(std::min(trained.slots_per_trial, 1.0));
}

// Returns the configuration of the experiment for one model on these slots.
ExperimentConfig ConfigForModel(const ExperimentDetail& detail,
                                const std::string& slots) {
  ExperimentConfig config = ConfigFromJson(detail.config);
  std::vector<std::string> overrides = {"resources.slots_per_trial=" +
                                        SlotsPerTrial(config.resources, slots)};
  config.resources = ResourcesOn(detail.config, slots, std::move(overrides));
  return config;
}

TrialSpec MakeSpec(const Store& store, const CheckpointRow& checkpoint,
                   const ExperimentConfig& config,
                   const CheckpointUseOptions& options,
                   const GlobalOptions& globals) {
  const auto trial = store.Trial(checkpoint.trial);
  const auto* entrypoint = std::get_if<std::string>(&config.entrypoint);
  if (!trial || entrypoint == nullptr) {
    throw Error(
        ErrorKind::kUsage,
        "checkpoint " + checkpoint.uuid + " was written by the program '" +
            EntrypointText(config) +
            "', and only that program can read it; its files are in " +
            (store.CheckpointPath(checkpoint) / kProgramFiles).string());
  }
  TrialSpec spec{.id = checkpoint.trial,
                 .split = options.split,
                 .entrypoint = *entrypoint,
                 .hparams = trial->hparams,
                 .data = config.data,
                 .seed = trial->seed};
  if (!options.data.empty()) spec.hparams["data"] = options.data;
  RequireStorageThere(store, checkpoint);
  spec.warm_start = store.CheckpointPath(checkpoint).string();
  spec.settings = config.training;
  RequireWholeContext(store.layout(),
                      FindExperimentDetail(store, checkpoint.trial.experiment));
  const auto own = CompileOwnModel(
      config, store.layout().Context(checkpoint.trial.experiment), globals);
  if (own) spec.library = own->file.string();
  return spec;
}

// "[Elapsed 0:00:02] batch 3 of 5", over and over on a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(const GlobalOptions& globals)
      : globals_(globals),
        shown_(!globals.quiet && ::isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() {
    if (width_ == 0) return;
    WriteNotice(globals_, "\r" + std::string(width_, ' ') + "\r");
  }

  void Show(const Progress& progress) {
    if (!shown_) return;
    const auto elapsed = std::chrono::steady_clock::now() - begin_;
    const std::string line = "[Elapsed " + FormatElapsed(elapsed) + "] batch " +
                             std::to_string(progress.batches) + " of " +
                             std::to_string(progress.total);
    WriteNotice(globals_, "\r" + line);
    width_ = line.size();
  }

 private:
  const GlobalOptions& globals_;
  const bool shown_;
  const std::chrono::steady_clock::time_point begin_ =
      std::chrono::steady_clock::now();
  std::size_t width_ = 0;
};

}  // namespace

CheckpointUse RunCheckpointUse(const CheckpointUseOptions& options, Task task,
                               std::int64_t limit,
                               const std::filesystem::path& directory,
                               const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  CheckpointUse use{.checkpoint = FindSourceCheckpoint(store, options.source,
                                                       options.latest)};
  use.counted = CountedUnit(store, use.checkpoint.trial.experiment);
  ExperimentConfig config = ConfigForModel(
      FindExperimentDetail(store, use.checkpoint.trial.experiment),
      options.slots);
  // A single trial uses all cores, unlike the trials of a search.
  config.searcher = SearcherConfig{.name = "single", .max_trials = 1};
  config.resources.local = true;
  TrialSpec spec = MakeSpec(store, use.checkpoint, config, options, globals);
  spec.task = task;
  spec.images = options.images;
  spec.limit = limit;
  spec.directory = directory.string();
  // A model trained in mixed precision runs in full precision without a GPU.
  config.training.mixed_precision = "none";
  SlotPlan slots = PlanExperimentSlots(config);
  slots.count = 1;
  if (slots.gpus.empty()) spec.settings.mixed_precision = "none";
  spec.threads = static_cast<int>(slots.threads);
  spec.world_size = static_cast<int>(slots.slots_per_trial);
  const auto launcher = MakeLocalLauncher({.experiment = spec.id.experiment,
                                           .slots = slots,
                                           .layout = StoreLayout(directory),
                                           .host = FindTrialHost()});
  {
    ProgressLine line(globals);
    use.evaluation =
        RunEvaluation(*launcher, spec,
                      [&](const Progress& progress) { line.Show(progress); });
  }
  for (const std::string& line : use.evaluation.last_lines)
    PrintNotice(globals, line);
  return use;
}

}  // namespace dtrain

#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/store_access.h"
#include "engine/base/error.h"
#include "engine/base/scratch_directory.h"
#include "engine/base/text.h"
#include "engine/process/local_launcher.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"
#include "engine/run/evaluation.h"
#include "engine/run/runner.h"

namespace dtrain {
namespace {

struct EvaluateOptions : JsonOption {
  std::string uuid;
  std::string split = "validation";
  std::string data;
  std::string slots;
};

// The configuration of the experiment, for one process on these slots.
ExperimentConfig ConfigOf(const ExperimentDetail& detail,
                          const std::string& slots) {
  ExperimentConfig config = ConfigFromJson(detail.config);
  std::vector<std::string> overrides = {"resources.slots_per_trial=1"};
  if (!slots.empty()) overrides.push_back("resources.slots=" + slots);
  const ConfigResult read =
      ReadConfig(ToYaml(detail.config),
                 {.file_name = "experiment " + std::to_string(detail.row.id),
                  .overrides = overrides});
  if (read.config) {
    config.resources = read.config->resources;
    return config;
  }
  throw Error(ErrorKind::kUsage,
              "--slots: '" + slots +
                  "' makes no sense here; say auto, none, cpu, cpu:N, "
                  "most_free, a GPU's number or [0, 1]");
}

TrialSpec SpecOf(const Store& store, const CheckpointRow& checkpoint,
                 const ExperimentConfig& config,
                 const EvaluateOptions& options) {
  const auto trial = store.Trial(checkpoint.trial);
  const auto* entrypoint = std::get_if<std::string>(&config.entrypoint);
  if (!trial || entrypoint == nullptr) {
    throw Error(ErrorKind::kUsage,
                "checkpoint " + checkpoint.uuid +
                    " is of a command, which dtrain cannot evaluate; call the "
                    "command's own evaluation");
  }
  TrialSpec spec{.id = checkpoint.trial,
                 .task = Task::kEvaluate,
                 .split = options.split,
                 .entrypoint = *entrypoint,
                 .hparams = trial->hparams,
                 .data = config.data,
                 .seed = trial->seed};
  if (!options.data.empty()) spec.hparams["data"] = options.data;
  spec.warm_start =
      store.layout().Checkpoint(checkpoint.trial, checkpoint.uuid).string();
  spec.settings = config.training;
  return spec;
}

// "[Elapsed 0:00:02] batch 3 of 5", over and over on a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool shown) : shown_(shown) {}
  ~ProgressLine() {
    if (width_ > 0) std::cerr << '\r' << std::string(width_, ' ') << '\r';
  }

  void Show(const Progress& progress) {
    if (!shown_) return;
    const auto elapsed = std::chrono::steady_clock::now() - begin_;
    const std::string line =
        "[Elapsed " +
        FormatElapsed(std::chrono::duration<double>(elapsed).count()) +
        "] batch " + std::to_string(progress.batches) + " of " +
        std::to_string(progress.total);
    std::cerr << '\r' << line << std::flush;
    width_ = line.size();
  }

 private:
  const bool shown_;
  const std::chrono::steady_clock::time_point begin_ =
      std::chrono::steady_clock::now();
  std::size_t width_ = 0;
};

Evaluation Measure(const TrialSpec& spec, const SlotPlan& slots, bool shown) {
  const ScratchDirectory scratch;
  LocalLauncher launcher({.experiment = spec.id.experiment,
                          .slots = slots,
                          .layout = StoreLayout(scratch.path()),
                          .host = FindTrialHost()});
  ProgressLine line(shown);
  return RunEvaluation(launcher, spec,
                       [&](const Progress& progress) { line.Show(progress); });
}

void Print(const CheckpointRow& checkpoint, const Evaluation& evaluation,
           const EvaluateOptions& options) {
  if (options.json) {
    return PrintJson({{"checkpoint", checkpoint.uuid},
                      {"trial", ToString(checkpoint.trial)},
                      {"batches", checkpoint.batches},
                      {"split", options.split},
                      {"metrics", MetricsJson(evaluation.metrics)},
                      {"duration", evaluation.seconds}});
  }
  std::cout << "checkpoint " << checkpoint.uuid << " of trial "
            << ToString(checkpoint.trial) << ", " << options.split << " set\n";
  for (const auto& [name, value] : evaluation.metrics) {
    std::cout << "  " << EscapeForTerminal(name) << "  " << FormatMetric(value)
              << '\n';
  }
  std::cout << "[Elapsed " << FormatElapsed(evaluation.seconds) << "]\n";
}

int Evaluate(const EvaluateOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const CheckpointRow checkpoint = store.CheckpointByPrefix(options.uuid);
  if (checkpoint.state == "DELETED") {
    throw Error(ErrorKind::kNotFound,
                "checkpoint " + checkpoint.uuid +
                    " is deleted; 'dtrain checkpoints " +
                    std::to_string(checkpoint.trial.experiment) +
                    "' shows those there are");
  }
  const ExperimentDetail detail =
      FindExperimentDetail(store, checkpoint.trial.experiment);
  const ExperimentConfig config = ConfigOf(detail, options.slots);
  TrialSpec spec = SpecOf(store, checkpoint, config, options);
  SlotPlan slots = PlanExperimentSlots(config);
  slots.count = 1;
  spec.threads = static_cast<int>(slots.threads);
  const bool shown = !globals.quiet && ::isatty(STDERR_FILENO) == 1;
  const Evaluation evaluation = Measure(spec, slots, shown);
  for (const std::string& line : evaluation.last_lines) Say(globals, line);
  Print(checkpoint, evaluation, options);
  return kExitDone;
}

}  // namespace

void SetUpEvaluate(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<EvaluateOptions>();
  AddOption(app, "CHECKPOINT", options->uuid, "At least 4 characters of it")
      .Required();
  AddOption(app, "--split", options->split, "validation or test")
      .OneOf({"validation", "test"})
      .ShowDefault();
  AddOption(app, "--data", options->data,
            "Directory of the data, instead of where the trial found it")
      .TypeName("DIR");
  AddOption(app, "--slots", options->slots,
            "Where: auto, none, cpu, most_free, or GPUs by number");
  AddJsonOption(app, *options);
  OnParsed(app, [options, &invocation] {
    invocation.run = [options, &invocation] {
      return Evaluate(*options, invocation.globals);
    };
  });
}

}  // namespace dtrain

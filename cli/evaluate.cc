#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/checkpoint_use.h"
#include "engine/app/stores.h"
#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/files.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

struct EvaluateOptions : JsonOption, CheckpointUseOptions {
  bool record = false;
};

// Returns the metrics under the names of a test set: trials report those of
// their validation, such as val_loss.
MetricValues TestMetrics(const MetricValues& metrics) {
  constexpr std::string_view kPrefix = "val_";
  MetricValues renamed;
  for (const auto& [name, value] : metrics) {
    const std::string rest =
        name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : "";
    const auto is_taken = [&](const auto& metric) {
      return metric.first == rest;
    };
    const bool keeps = rest.empty() || std::ranges::any_of(metrics, is_taken);
    renamed.emplace_back(keeps ? name : rest, value);
  }
  return renamed;
}

std::string AbsolutePath(const std::string& path) {
  if (path.empty()) return path;
  return std::filesystem::absolute(path).lexically_normal().string();
}

void RecordEvaluation(const CheckpointUse& use, const EvaluateOptions& options,
                      const GlobalOptions& globals) {
  const TrialId trial = use.checkpoint.trial;
  Store store = OpenStoreToChange(globals, {trial.experiment});
  store.Write([&](StoreWriter& writer) {
    writer.AddEvaluation({.trial = trial,
                          .checkpoint = use.checkpoint.uuid,
                          .batches = use.checkpoint.batches,
                          .split = options.split,
                          .data = AbsolutePath(options.data),
                          .metrics = use.evaluation.metrics,
                          .seconds = use.evaluation.seconds,
                          .time = Clock::System().now()});
  });
}

void PrintEvaluation(const CheckpointUse& use, const EvaluateOptions& options,
                     bool is_recorded) {
  const auto& [checkpoint, counted, evaluation] = use;
  if (options.json) {
    nlohmann::json document = {{"checkpoint", checkpoint.uuid},
                               {"trial", ToString(checkpoint.trial)},
                               {"batches", checkpoint.batches},
                               {"split", options.split},
                               {"metrics", MetricsJson(evaluation.metrics)},
                               {"duration", evaluation.seconds},
                               {"recorded", is_recorded}};
    AddLength(counted, document);
    return PrintJson(document);
  }
  std::cout << "checkpoint " << checkpoint.uuid << " of trial "
            << ToString(checkpoint.trial) << ", " << options.split << " set\n";
  for (const auto& [name, value] : evaluation.metrics) {
    std::cout << "  " << EscapeForTerminal(name) << "  " << FormatMetric(value)
              << '\n';
  }
  const std::chrono::duration<double> elapsed(evaluation.seconds);
  std::cout << "[Elapsed "
            << FormatElapsed(std::chrono::duration_cast<Duration>(elapsed))
            << "]\n";
}

int EvaluateCheckpoint(const EvaluateOptions& options,
                       const GlobalOptions& globals) {
  const ScratchDirectory scratch;
  CheckpointUse use = RunCheckpointUse(options, Task::kEvaluate, /*limit=*/0,
                                       scratch.path(), globals);
  if (use.evaluation.signal != 0) return 128 + use.evaluation.signal;
  if (options.split == "test") {
    use.evaluation.metrics = TestMetrics(use.evaluation.metrics);
  }
  try {
    if (options.record) RecordEvaluation(use, options, globals);
  } catch (const Error&) {
    // Print the measurement even if it cannot be recorded.
    PrintEvaluation(use, options, /*is_recorded=*/false);
    throw;
  }
  PrintEvaluation(use, options, options.record);
  return kExitDone;
}

}  // namespace

CommandRun SetUpEvaluate(CLI::App& app) {
  auto options = std::make_shared<EvaluateOptions>();
  AddCheckpointUseOptions(app, *options);
  AddFlag(app, "--record", options->record,
          "Record the result; 'dtrain describe' shows it");
  AddJsonOption(app, *options);
  SetHelp(
      app,
      {.exits = {{kExitDone},
                 {kExitFailed, "the evaluation failed"},
                 {kExitUsage},
                 {kExitNotFound, "no such checkpoint, or no such data split"},
                 {kExitStore},
                 {kExitResources}},
       .examples = {{"Evaluate the best checkpoint of an experiment",
                     "dtrain evaluate 3"},
                    {"Record the result on the test set",
                     "dtrain evaluate 3.7 --split test --record"}}});
  return RunWith(EvaluateCheckpoint, options);
}

}  // namespace dtrain

#include <chrono>
#include <iostream>
#include <memory>

#include "cli/checkpoint_use.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/base/scratch_directory.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

struct EvaluateOptions : JsonOption, CheckpointUseOptions {};

void PrintEvaluation(const CheckpointUse& use, const EvaluateOptions& options) {
  const auto& [checkpoint, evaluation] = use;
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
  const std::chrono::duration<double> elapsed(evaluation.seconds);
  std::cout << "[Elapsed "
            << FormatElapsed(std::chrono::duration_cast<Duration>(elapsed))
            << "]\n";
}

int EvaluateCheckpoint(const EvaluateOptions& options,
                       const GlobalOptions& globals) {
  const ScratchDirectory scratch;
  const CheckpointUse use = RunCheckpointUse(
      options, Task::kEvaluate, /*limit=*/0, scratch.path(), globals);
  if (use.evaluation.signal != 0) return 128 + use.evaluation.signal;
  PrintEvaluation(use, options);
  return kExitDone;
}

}  // namespace

void SetUpEvaluate(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<EvaluateOptions>();
  AddCheckpointUseOptions(app, *options);
  AddJsonOption(app, *options);
  OnParsed(app, [options, &invocation] {
    invocation.run = [options, &invocation] {
      return EvaluateCheckpoint(*options, invocation.globals);
    };
  });
}

}  // namespace dtrain

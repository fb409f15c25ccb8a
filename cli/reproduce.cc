#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/entrypoint_check.h"
#include "cli/exit_code.h"
#include "cli/metric_comparison.h"
#include "cli/output.h"
#include "cli/record_experiment.h"
#include "cli/run_experiment.h"
#include "cli/run_options.h"
#include "cli/single_trial.h"
#include "cli/source_checkpoint.h"
#include "cli/store_access.h"
#include "cli/surroundings.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "searchers/searcher.h"

namespace dtrain {
namespace {

struct ReproduceOptions {
  std::string trial;
  std::string tolerance_text;
  std::string against;
  RunFlags run;
};

TrialId ParseTrialId(const std::string& text) {
  const Target target = ParseTarget(text);
  if (target.trial) return {target.experiment, *target.trial};
  throw Error(ErrorKind::kUsage, "'" + text +
                                     "' is an experiment; name one of its "
                                     "trials, such as " +
                                     text + ".1");
}

double ParseTolerance(const std::string& text) {
  if (text.empty()) return 0;
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end && value >= 0 &&
      std::isfinite(value)) {
    return value;
  }
  throw Error(ErrorKind::kUsage,
              "--tolerance: '" + text +
                  "' is no relative difference; give a number such as 1e-6");
}

// The lengths that the trial was trained to, one after the other. One that was
// broken off is run as far as it was to go.
std::vector<std::int64_t> LengthsOf(const Store& store, TrialId id) {
  const TrialIndex index = id.number - 1;
  std::vector<std::int64_t> lengths;
  for (const SearcherEventRow& row : store.SearcherEvents(id.experiment, 0)) {
    for (const nlohmann::json& json : row.operations) {
      const Operation operation = OperationFromJson(json);
      const auto* more = std::get_if<ValidateAfter>(&operation);
      if (more == nullptr || more->trial != index) continue;
      if (lengths.empty() || more->length > lengths.back()) {
        lengths.push_back(more->length);
      }
    }
  }
  return lengths;
}

void RequireEnded(const TrialRow& row, const GlobalOptions& globals) {
  const std::string name = "trial " + ToString(row.id);
  if (!IsFinal(row.state)) {
    throw Error(
        ErrorKind::kUsage,
        name + " is " + std::string(StateName(row.state)) +
            "; reproduce it when it has ended: " +
            CommandFor(globals, "wait " + std::to_string(row.id.experiment)) +
            "; nothing was created");
  }
  if (row.batches > 0) return;
  throw Error(ErrorKind::kUsage, name +
                                     " has trained nothing that could be "
                                     "reproduced; nothing was created");
}

nlohmann::json ConfigOf(const RecordedTrial& trial,
                        std::vector<std::int64_t> lengths,
                        const std::optional<SourceCheckpoint>& start) {
  nlohmann::json effective = SingleTrialConfig(trial);
  nlohmann::json& searcher = effective["searcher"];
  nlohmann::json& longest = searcher["max_length"];
  // Null where a program decided how long it trained.
  if (!longest.is_null()) {
    longest.front() = lengths.back();
    lengths.pop_back();
    searcher["stops"] = lengths;
  }
  if (start) searcher["source_checkpoint_uuid"] = start->uuid;
  effective["reproducibility"]["trial_seed"] = trial.row.seed;
  return effective;
}

void SayHowItRan(const TrialRow& row, const GlobalOptions& globals) {
  const std::string name = "trial " + ToString(row.id);
  if (row.restarts > 0) {
    Say(globals, name + " was restarted after failures (" +
                     std::to_string(row.restarts) +
                     "); this run begins at batch 0");
  } else if (row.runs > 1) {
    Say(globals, name + " was paused and went on " +
                     std::to_string(row.runs - 1) +
                     " times; this run does it in one");
  }
}

RunConclusion Conclude(const MetricComparison& comparison, double tolerance) {
  return {.key = "reproduction",
          .document = comparison.Json(tolerance),
          .text = comparison.Text(tolerance),
          .met = comparison.AreEqual(tolerance)};
}

std::optional<RunConclusion> ConcludeRun(const Store& store,
                                         const RunResult& result,
                                         TrialId source, double tolerance,
                                         const GlobalOptions& globals) {
  const TrialId made{result.experiment, 1};
  if (IsFinal(result.state)) {
    return Conclude(CompareMetrics(store, source, made), tolerance);
  }
  Say(globals, "once it has ended, compare with: " +
                   CommandFor(globals, "reproduce " + ToString(source) +
                                           " --against " + ToString(made)));
  return std::nullopt;
}

// Compares what is there; runs nothing.
int CompareTrials(const ReproduceOptions& options, TrialId source,
                  double tolerance, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const TrialId other = ParseTrialId(options.against);
  FindRecordedTrial(store, source);
  FindRecordedTrial(store, other);
  const MetricComparison comparison = CompareMetrics(store, source, other);
  if (options.run.json) {
    PrintJson(comparison.Json(tolerance));
  } else {
    std::cout << EscapeForTerminal(comparison.Text(tolerance)) << '\n';
  }
  return comparison.AreEqual(tolerance) ? kExitDone : kExitRequirement;
}

int RunAgain(TrialId source, double tolerance, RunRequest& request,
             const GlobalOptions& globals) {
  const StoreLayout layout = FindStore(globals);
  ExperimentConfig config;
  ExperimentParts parts;
  nlohmann::json provenance;
  {
    // Closed before anything forks.
    const Store store = Store::OpenForReading(layout);
    const RecordedTrial trial = FindRecordedTrial(store, source);
    RequireEnded(trial.row, globals);
    RequireWholeContext(layout, trial.experiment);
    parts = {.context = StoredContextOf(layout, trial.experiment),
             .source = SourceOf(store, trial.experiment),
             .threads = RecordedThreads(trial.experiment),
             .one_process = RecordedOneProcess(trial.experiment)};
    config = ReadSingleTrialConfig(
        trial, ConfigOf(trial, LengthsOf(store, source), parts.source), {}, {},
        layout, request, globals);
    CheckEntrypoint(ToString(source), config,
                    layout.Context(source.experiment));
    CheckOnThisMachine(ToString(source), config,
                       ContextOf(layout, trial.experiment), globals);
    provenance = SingleTrialProvenance(trial, config, globals);
    provenance["reproduces"] = ToString(source);
    SayDifferences(trial.experiment, provenance, globals);
    SayHowItRan(trial.row, globals);
  }
  request.conclude = [&](const Store& store, const RunResult& result) {
    return ConcludeRun(store, result, source, tolerance, globals);
  };
  const Recording record = [&](Store& store) {
    return RecordExperiment(store, config, ToYaml(config.effective), provenance,
                            parts);
  };
  return RunRecorded(layout, record, config, request, globals);
}

int Reproduce(const ReproduceOptions& options, const GlobalOptions& globals) {
  const TrialId source = ParseTrialId(options.trial);
  const double tolerance = ParseTolerance(options.tolerance_text);
  if (!options.against.empty()) {
    return CompareTrials(options, source, tolerance, globals);
  }
  RunRequest request = CheckRunFlags(options.run, globals);
  return RunOrReport(request, options.trial, [&] {
    return RunAgain(source, tolerance, request, globals);
  });
}

}  // namespace

CommandRun SetUpReproduce(CLI::App& app) {
  auto options = std::make_shared<ReproduceOptions>();
  AddOption(app, "EXP.N", options->trial, "Trial").Required();
  AddOption(app, "--tolerance", options->tolerance_text,
            "Largest relative difference that still counts as equal")
      .TypeName("R");
  AddOption(app, "--against", options->against,
            "Run nothing, compare with this trial")
      .TypeName("EXP.N");
  AddRunFlags(app, options->run);
  return RunWith(Reproduce, options);
}

}  // namespace dtrain

// `dtrain reproduce`: runs a recorded trial again and compares its metrics.
//
// A trial of a search is paused and resumed at lengths that depend on the other
// trials. The recorded operations of the search say which lengths those were;
// the new experiment stops at each of them (searcher.stops), because learning
// rate schedules and random number streams may depend on them. Threads and
// processes per trial are those of the recording.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/run.h"
#include "engine/app/checkpoints.h"
#include "engine/app/entrypoint_check.h"
#include "engine/app/metric_comparison.h"
#include "engine/app/record_experiment.h"
#include "engine/app/recorded_trial.h"
#include "engine/app/script_check.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/report/json_view.h"
#include "engine/run/reporter.h"
#include "engine/run/runner.h"
#include "engine/slots/slots.h"
#include "engine/store/store.h"
#include "searchers/searcher.h"

namespace dtrain {
namespace {

using nlohmann::json;

std::string ToText(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "unknown" : value.dump();
}

// Warns if the values differ.
void WarnIfDifferent(const std::string& what, const json& before,
                     const json& now, const GlobalOptions& globals) {
  if (before == now) return;
  PrintNotice(globals, "warning: " + what + " was " + ToText(before) +
                           ", now it is " + ToText(now) +
                           "; results may differ");
}

json Member(const json& object, const std::string& name) {
  return object.is_object() ? object.value(name, json()) : json();
}

json GpuNames(const json& provenance) {
  json names = json::array();
  for (const json& gpu : Member(provenance, "gpus")) {
    names.push_back(Member(gpu, "name"));
  }
  return names;
}

// True if each of its trials was one process regardless of its slots, as in
// earlier versions.
bool RecordedOneProcess(const ExperimentDetail& experiment) {
  return Member(Member(experiment.provenance, "slots"), "ranks").is_null();
}

// Returns the threads of each process of a recorded experiment; nothing if it
// ran on GPUs or the number is not recorded.
std::optional<std::int64_t> RecordedThreads(
    const ExperimentDetail& experiment) {
  const json slots = Member(experiment.provenance, "slots");
  const json threads = Member(slots, "threads");
  if (!threads.is_number_integer() || Member(slots, "gpus") != 0) {
    return std::nullopt;
  }
  return threads.get<std::int64_t>();
}

// Warns on stderr about environment changes that alter results: versions, CPU,
// GPUs, threads. `now` is the provenance of the new run.
void WarnAboutDifferences(const ExperimentDetail& experiment, const json& now,
                          const GlobalOptions& globals) {
  const json& before = experiment.provenance;
  WarnIfDifferent("the version of dtrain", Member(before, "version"),
                  Member(now, "version"), globals);
  const json libraries = Member(now, "libraries");
  for (const auto& [name, version] : libraries.items()) {
    WarnIfDifferent("the version of " + name,
                    Member(Member(before, "libraries"), name), version,
                    globals);
  }
  for (const std::string& text :
       PythonDifferences(Member(before, "python"), Member(now, "python"))) {
    PrintNotice(globals, "warning: " + text + "; results may differ");
  }
  WarnIfDifferent("the CPU", Member(Member(before, "cpu"), "model"),
                  Member(Member(now, "cpu"), "model"), globals);
  if (Member(Member(before, "slots"), "gpus") != 0) {
    WarnIfDifferent("the GPU", GpuNames(before), GpuNames(now), globals);
  }
  const auto threads = RecordedThreads(experiment);
  if (threads && *threads > UsableCpus()) {
    PrintNotice(globals, "warning: the trial had " + std::to_string(*threads) +
                             " threads, but this machine has " +
                             std::to_string(UsableCpus()) +
                             " CPUs; it will run slower");
  }
}

struct ReproduceOptions {
  std::string trial;
  std::string tolerance_text;
  std::string against;
  RunFlags run;
};

TrialId FindTrialId(const Store& store, const std::string& text) {
  const Target target = ResolveTarget(store, text);
  if (target.trial) return {target.experiment, *target.trial};
  throw Error(ErrorKind::kUsage,
              "'" + text +
                  "' is an experiment; give one of its trials, such as " +
                  text + ".1");
}

double ParseTolerance(const std::string& text) {
  if (text.empty()) return 0;
  const auto value = ParseFinite(text);
  if (value && *value >= 0) return *value;
  throw Error(ErrorKind::kUsage,
              "--tolerance: '" + text +
                  "' is not a relative difference; give a number such as 1e-6");
}

// Returns the lengths that the trial was trained to, in order. An interrupted
// trial is run to the length that it was meant to reach.
std::vector<std::int64_t> ReadLengths(const Store& store, TrialId id) {
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
            "; reproduce it after it ends: " +
            CommandFor(globals, "wait " + std::to_string(row.id.experiment)) +
            "; nothing was created");
  }
  if (row.batches > 0) return;
  throw Error(ErrorKind::kUsage, name +
                                     " has not trained, so there is nothing to "
                                     "reproduce; nothing was created");
}

nlohmann::json MakeReproduction(const RecordedTrial& trial,
                                std::vector<std::int64_t> lengths,
                                const std::optional<SourceCheckpoint>& start) {
  nlohmann::json effective = SingleTrialConfig(trial);
  nlohmann::json& searcher = effective["searcher"];
  const bool has_time = searcher.contains("max_time");
  nlohmann::json& longest = searcher[has_time ? "max_time" : "max_length"];
  // Null if a program decided its length.
  if (!longest.is_null()) {
    (has_time ? longest : longest.front()) = lengths.back();
    lengths.pop_back();
    searcher["stops"] = lengths;
  }
  if (start) searcher["source_checkpoint_uuid"] = start->uuid;
  effective["reproducibility"]["trial_seed"] = trial.row.seed;
  return effective;
}

void PrintRunHistory(const TrialRow& row, const GlobalOptions& globals) {
  const std::string name = "trial " + ToString(row.id);
  if (row.restarts > 0) {
    PrintNotice(globals, name + " was restarted after failures (" +
                             std::to_string(row.restarts) +
                             "); this run starts from the beginning");
  } else if (row.runs > 1) {
    PrintNotice(globals,
                name + " was paused and resumed " +
                    std::to_string(row.runs - 1) +
                    " times; this run pauses only at the lengths that the "
                    "search gave it");
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
    const auto comparison = CompareMetrics(store, source, made);
    const auto row = store.Trial(source);
    if (!comparison.AreEqual(tolerance) && row && row->runs > 1) {
      PrintNotice(
          globals,
          "note: trial " + ToString(source) +
              " was paused and resumed; a program that does not save its "
              "random state with its checkpoint gives other results then");
    }
    return Conclude(comparison, tolerance);
  }
  PrintNotice(globals,
              "after it ends, compare with: " +
                  CommandFor(globals, "reproduce " + ToString(source) +
                                          " --against " + ToString(made)));
  return std::nullopt;
}

// Compares two recorded trials; runs nothing.
int CompareTrials(const ReproduceOptions& options, TrialId source,
                  double tolerance, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const TrialId other = FindTrialId(store, options.against);
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
    // Closed before the process forks.
    const Store store = Store::OpenForReading(layout);
    const RecordedTrial trial = FindRecordedTrial(store, source);
    RequireEnded(trial.row, globals);
    RequireWholeContext(layout, trial.experiment);
    parts = {.context = ReadStoredContext(layout, trial.experiment),
             .source = FindRecordedSource(store, trial.experiment),
             .threads = RecordedThreads(trial.experiment),
             .one_process = RecordedOneProcess(trial.experiment)};
    config = ReadSingleTrialConfig(
        trial,
        MakeReproduction(trial, ReadLengths(store, source), parts.source), {},
        {}, layout, FindingsRecorder(request, globals), globals);
    CheckEntrypoint(ToString(source), config,
                    layout.Context(source.experiment));
    CheckOnThisMachine(ToString(source), config,
                       FindContextDirectory(layout, trial.experiment), globals);
    provenance = SingleTrialProvenance(trial, config, globals);
    provenance["reproduces"] = ToString(source);
    WarnAboutDifferences(trial.experiment, provenance, globals);
    PrintRunHistory(trial.row, globals);
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
  const TrialId source = FindTrialId(OpenStore(globals), options.trial);
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
  AddOption(app, "TRIAL", options->trial, "Trial that has ended (3.7)")
      .Required();
  AddOption(app, "--tolerance", options->tolerance_text,
            "Treat relative differences of up to R as equal (default: 0)")
      .TypeName("R");
  AddOption(app, "--against", options->against,
            "Run nothing; compare with this trial")
      .TypeName("TRIAL");
  AddRunFlags(app, options->run);
  std::vector<ExitMeaning> exits = RunExits();
  exits[0].text = "the metrics are equal";
  exits[4].text = "the metrics differ, or a --require expression is false";
  SetHelp(app, {.exits = std::move(exits),
                .examples = {
                    {"Check that a trial gives the same metrics again",
                     "dtrain reproduce 3.7"},
                    {"Compare two existing trials with a tolerance",
                     "dtrain reproduce 3.7 --against 4.1 --tolerance 1e-6"}}});
  return RunWith(Reproduce, options);
}

}  // namespace dtrain

// `dtrain reproduce`: runs a recorded trial again and compares its metrics.
//
// A trial of a search is paused and resumed at lengths that depend on the other
// trials. The recorded operations of the search say which lengths those were;
// the new experiment stops at each of them (searcher.stops), because learning
// rate schedules and random number streams may depend on them. Threads and
// processes per trial are those of the recording.
//
// Values are compared bit by bit unless a tolerance is given: 0 and -0 differ,
// NaN equals NaN. The relative difference of a and b is |a - b| / max(|a|,
// |b|). Metrics match by kind, batches and name.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/run.h"
#include "engine/app/recorded_trial.h"
#include "engine/app/script_check.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/length.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/context/context_links.h"
#include "engine/context/stored_context.h"
#include "engine/report/json_view.h"
#include "engine/run/reporter.h"
#include "engine/run/runner.h"
#include "engine/slots/slots.h"
#include "engine/store/rows.h"
#include "engine/store/store.h"
#include "searchers/searcher.h"

namespace dtrain {
namespace {

// Differences between the metrics of two trials, matched by kind, batches and
// name.
struct MetricComparison {
  TrialId source;
  TrialId trial;
  std::int64_t compared = 0;   // that both have
  std::int64_t different = 0;  // of those, not the same to the bit
  std::int64_t missing = 0;    // that one of them lacks
  double largest = 0;          // relative difference; infinite for NaN
  // Metric with the largest difference, as in `source`; its value in `trial`.
  std::optional<MetricRow> where;
  double value = 0;
  Units units;  // of `source`

  // True if no metric is missing and none differs by more than `tolerance`; 0
  // requires equal bits. NaN equals NaN.
  bool AreEqual(double tolerance) const;
  // Returns the result as a sentence.
  std::string Text(double tolerance) const;
  nlohmann::json Json(double tolerance) const;
};

using MetricKey = std::tuple<MetricKind, std::int64_t, std::string>;

// Compares bits, because == treats 0 and -0 as equal and NaN as unequal to
// itself.
bool IsSame(double a, double b) {
  if (std::isnan(a) && std::isnan(b)) return true;
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

double RelativeDifference(double a, double b) {
  const double scale = std::max(std::abs(a), std::abs(b));
  const double difference = std::abs(a - b) / scale;
  if (scale == 0) return 0;  // 0 and -0
  return std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                : difference;
}

MetricKey MakeKey(const MetricRow& row) {
  return {row.kind, row.batches, row.name};
}

std::map<MetricKey, MetricRow> ReadMetrics(const Store& store, TrialId trial) {
  std::map<MetricKey, MetricRow> metrics;
  store.ForEachMetric(
      {.experiment = trial.experiment, .trial = trial.number},
      [&](const MetricRow& row) { metrics.emplace(MakeKey(row), row); });
  return metrics;
}

// True if `row`, which only one trial has, is the mean of the other's reports
// at the ends of epochs: earlier versions merged the metrics of whole epochs
// into the next report. Removes those reports from `others`.
bool IsMeanOfEpochs(const MetricRow& row,
                    std::map<MetricKey, MetricRow>& others) {
  if (row.kind != MetricKind::kTraining) return false;
  std::vector<MetricKey> epochs;
  double total = 0;
  for (const auto& [key, other] : others) {
    const bool is_earlier = other.kind == row.kind && other.name == row.name &&
                            other.batches < row.batches &&
                            other.epoch == std::floor(other.epoch);
    if (!is_earlier) continue;
    epochs.push_back(key);
    total += other.value;
  }
  if (epochs.empty()) return false;
  const double mean = total / static_cast<double>(epochs.size());
  const double last = others.at(epochs.back()).value;
  if (!IsSame(row.value, mean) && !IsSame(row.value, last)) return false;
  for (const MetricKey& key : epochs) others.erase(key);
  return true;
}

bool MetricComparison::AreEqual(double tolerance) const {
  if (missing > 0 || compared == 0) return false;
  return tolerance > 0 ? largest <= tolerance : different == 0;
}

std::string MetricComparison::Text(double tolerance) const {
  const std::string name = "trial " + ToString(trial);
  const std::string other = ToString(source);
  std::string lacking;
  if (missing > 0) {
    lacking =
        "; " + CountText(missing, "metric") + " present in only one of them";
  }
  if (compared == 0) return name + " has no metric in common with " + other;
  if (different == 0) {
    return name + " has the same " + CountText(compared, "metric") + " as " +
           other + ", bit for bit" + lacking;
  }
  std::string text =
      name + " differs from " + other + " in " + std::to_string(different) +
      " of " + CountText(compared, "metric") +
      "; the largest relative difference is " + FormatNumber(largest);
  if (where) {
    text += ", of " + std::string(MetricKindName(where->kind)) + " " +
            where->name + " at " +
            PositionText({where->batches, where->epoch}, units) + ": " +
            FormatNumber(value) + " instead of " + FormatNumber(where->value);
  }
  if (AreEqual(tolerance)) text += "; within --tolerance";
  return text + lacking;
}

nlohmann::json MetricComparison::Json(double tolerance) const {
  nlohmann::json at;
  if (where) {
    at = {{"kind", MetricKindName(where->kind)},
          {"batches", where->batches},
          {"name", where->name},
          {"expected", JsonNumber(where->value)},
          {"value", JsonNumber(value)}};
    AddLength(units.counted, at);
  }
  return {{"source", ToString(source)},
          {"trial", ToString(trial)},
          {"equal", AreEqual(tolerance)},
          {"tolerance", tolerance},
          {"metrics", compared},
          {"different", different},
          {"missing", missing},
          {"largest_difference", JsonNumber(largest)},
          {"largest_at", at}};
}

// Compares the metrics of `trial` with those of `source`, up to the last one
// of `source`; later ones are ignored.
MetricComparison CompareMetrics(const Store& store, TrialId source,
                                TrialId trial) {
  MetricComparison result{.source = source,
                          .trial = trial,
                          .units = FindUnits(store, source.experiment)};
  const auto expected = ReadMetrics(store, source);
  auto found = ReadMetrics(store, trial);
  std::int64_t last = -1;
  std::vector<MetricRow> unmatched;
  for (const auto& [key, row] : expected) {
    last = std::max(last, row.batches);
    const auto other = found.find(key);
    if (other == found.end()) {
      unmatched.push_back(row);
      continue;
    }
    ++result.compared;
    const double value = other->second.value;
    found.erase(other);
    if (IsSame(row.value, value)) continue;
    ++result.different;
    const double difference = RelativeDifference(row.value, value);
    if (result.where && difference <= result.largest) continue;
    result.largest = difference;
    result.where = row;
    result.value = value;
  }
  for (const MetricRow& row : unmatched) {
    if (IsMeanOfEpochs(row, found)) {
      ++result.compared;
    } else {
      ++result.missing;
    }
  }
  for (const auto& [key, row] : found) {
    if (row.batches <= last) ++result.missing;
  }
  return result;
}

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
  for (const json& link : before.value(kContextLinks, json::array())) {
    const std::string change = LinkChange(link);
    const std::string target = link.value("target", "");
    if (change.starts_with("holds") &&
        link.value("files", 0) + link.value("links", 0) == 0) {
      PrintNotice(globals, "note: '" + link.value("path", "") +
                               "' is a link to " + target +
                               ", which was empty when the experiment was "
                               "recorded; what it holds now was written by "
                               "trials or others");
      continue;
    }
    PrintNotice(globals, change.empty()
                             ? "note: '" + link.value("path", "") +
                                   "' is a link to " + target +
                                   (link.value("complete", true)
                                        ? ", whose files have the number, "
                                          "size and newest time of when the "
                                          "experiment was recorded"
                                        : ", which has too many files to "
                                          "compare")
                             : "warning: " + target + ", which '" +
                                   link.value("path", "") + "' is a link to, " +
                                   change + "; results may differ");
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
                                std::vector<std::int64_t> lengths) {
  nlohmann::json effective = RerunConfig(trial);
  nlohmann::json& searcher = effective["searcher"];
  const bool has_time = searcher.contains("max_time");
  nlohmann::json& longest = searcher[has_time ? "max_time" : "max_length"];
  // Null if a program decided its length.
  if (!longest.is_null()) {
    (has_time ? longest : longest.front()) = lengths.back();
    lengths.pop_back();
    searcher["stops"] = lengths;
  }
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
  const TrialId other = ResolveTrial(store, options.against);
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
  DerivedExperiment derived;
  {
    // Closed before the process forks.
    const Store store = Store::OpenForReading(layout);
    const RecordedTrial trial = FindRecordedTrial(store, source);
    RequireEnded(trial.row, globals);
    derived = DeriveExperiment(
        store, trial, MakeReproduction(trial, ReadLengths(store, source)), {},
        /*start=*/{}, FindingsRecorder(request, globals), globals);
    derived.parts.threads = RecordedThreads(trial.experiment);
    derived.parts.one_process = RecordedOneProcess(trial.experiment);
    derived.provenance["reproduces"] = ToString(source);
    WarnAboutDifferences(trial.experiment, derived.provenance, globals);
    PrintRunHistory(trial.row, globals);
  }
  request.conclude = [&](const Store& store, const RunResult& result) {
    return ConcludeRun(store, result, source, tolerance, globals);
  };
  return RunDerived(layout, derived, request, globals);
}

int Reproduce(const ReproduceOptions& options, const GlobalOptions& globals) {
  const TrialId source = ResolveTrial(OpenStore(globals), options.trial);
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

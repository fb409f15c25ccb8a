// `dtrain describe`: all that is recorded of an experiment or of one trial, as
// text or JSON.
//
// Text and JSON are made by separate functions from the same rows: what is
// added to one belongs in the other, too. The plan and its expectation are
// computed from the recorded configuration, not stored. Texts that come from
// users or programs are escaped by PrintFact.

#include <cstdint>
#include <iostream>
#include <memory>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/disk_use.h"
#include "engine/app/notifications.h"
#include "engine/app/record_experiment.h"
#include "engine/app/stores.h"
#include "engine/app/system_use.h"
#include "engine/app/trial_files.h"
#include "engine/base/length.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/context/context_links.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"
#include "engine/report/profile_view.h"
#include "engine/report/search_preview.h"
#include "engine/report/system_view.h"
#include "engine/run/reported_units.h"
#include "engine/run/reporter.h"
#include "engine/run/runner.h"
#include "engine/slots/slots.h"
#include "engine/store/store.h"
#include "searchers/search_plan.h"
#include "searchers/simulation.h"

namespace dtrain {
namespace {

void PrintProfile(const ProfileReport& profile, const GlobalOptions& globals) {
  std::cout << "\ntime by phase, " << profile.trained << " batches\n";
  PrintTable(ProfileTable(profile), Format::kText, globals);
  std::cout << '\n';
  for (const auto& [name, value] : ProfileFacts(profile)) {
    PrintFact(name, value);
  }
}

void PrintUse(const SystemUse& use, const UseContext& context) {
  std::cout << "\nresources, sampled for " << FormatSeconds(use.seconds)
            << '\n';
  PrintFact("use", SummarizeUse(use, context));
  for (const auto& [name, value] : SystemFacts(use)) PrintFact(name, value);
}

void PrintTrial(const TrialRow& row, const std::string& metric,
                const std::string& directory, const std::string& files,
                const SlotWait* wait, const Units& units) {
  const std::string named = metric + " ";
  std::cout << "trial " << ToString(row.id) << (row.star ? " ★" : "") << '\n';
  PrintFact("state", StateText(row.state, wait) +
                         (row.reason.empty() ? "" : ": " + row.reason));
  if (wait != nullptr) PrintFact("slots", wait->ToString());
  if (row.point > 0) {
    PrintFact("point", std::to_string(row.point) + ", repeat " +
                           std::to_string(row.repeat));
  }
  PrintFact("hparams", FormatHparams(row.hparams));
  PrintFact("seed", std::to_string(row.seed));
  PrintFact(std::string(UnitName(units.counted)), std::to_string(row.batches));
  PrintFact("rung", std::to_string(row.rung));
  const bool is_lost = row.best && row.best->checkpoint.empty();
  PrintFact("best", row.best ? named + FormatBest(row.best, units) +
                                   (is_lost ? ", no checkpoint" : "")
                             : "-");
  PrintFact("latest", row.latest ? named + FormatBest(row.latest, units) : "-");
  PrintFact("checkpoint", row.latest_checkpoint);
  PrintFact("restarts", std::to_string(row.restarts));
  if (row.preemptions > 0) {
    PrintFact("preemptions", std::to_string(row.preemptions));
  }
  PrintFact("created", FormatTime(row.created));
  PrintFact("started", FormatTime(row.started));
  PrintFact("ended", FormatTime(row.ended));
  PrintFact("duration",
            FormatSeconds(ElapsedSeconds(row, Clock::System().now())));
  PrintFact("directory", directory);
  PrintFact("files", files);
  PrintFact("note", row.note);
}

nlohmann::json EvaluationsJson(const std::vector<EvaluationRow>& rows,
                               Unit counted) {
  nlohmann::json array = nlohmann::json::array();
  for (const EvaluationRow& row : rows) {
    array.push_back(EvaluationJson(row));
    AddLength(counted, array.back());
  }
  return array;
}

// Prints the results that `evaluate --record` stored.
void PrintEvaluations(const std::vector<EvaluationRow>& rows,
                      const Units& units) {
  if (rows.empty()) return;
  std::cout << "\nrecorded evaluations\n";
  for (const EvaluationRow& row : rows) {
    const std::string data = row.data.empty() ? "" : ", data " + row.data;
    PrintFact(FormatTime(row.time), row.split + " set, trial " +
                                        ToString(row.trial) + ", checkpoint " +
                                        row.checkpoint + " at " +
                                        PositionText(row.at(), units) + data +
                                        ": " + FormatMetrics(row.metrics));
  }
}

// Prints the messages about an experiment and their outcome.
void PrintNotifications(const std::vector<NotificationRow>& rows,
                        const ExperimentConfig& config) {
  if (rows.empty() || !config.notify) return;
  std::cout << "\nnotifications\n";
  for (const NotificationRow& row : rows) {
    PrintFact(FormatTime(row.created),
              row.event + " to " + TargetText(*config.notify, row.target) +
                  ": " + OutcomeText(row));
  }
}

// Prints the record of one trial, with its profile if it has one.
void DescribeTrial(const Store& store, const ExperimentDetail& detail,
                   std::int64_t number, bool as_json,
                   const GlobalOptions& globals) {
  const ExperimentRow& experiment = detail.row;
  const TrialRow row = FindTrial(store, experiment, number);
  const std::string directory = store.layout().Trial(row.id).string();
  const auto files = ListTrialFiles(store, row.id);
  const auto profile = store.Profile(row.id);
  const auto use = store.FindSystemUse(experiment.id, number);
  const UseContext context = TrialUseContext(detail, profile);
  const auto evaluations = store.Evaluations(experiment.id, number);
  const SlotQueueView queue(store);
  const SlotWait* wait = queue.FindWait(row);
  const Units units = FindUnits(store, experiment.id);
  if (as_json) {
    const double seconds = ElapsedSeconds(row, Clock::System().now());
    nlohmann::json document = TrialJson(row, experiment.metric, seconds, wait);
    AddLength(units.counted, document);
    document["directory"] = directory;
    document["files"] = files.size();
    document["profile"] = ProfileJson(profile);
    document["system"] = SystemUseJson(use, context);
    document["evaluations"] = EvaluationsJson(evaluations, units.counted);
    PrintJson(document);
    return;
  }
  PrintTrial(row, experiment.metric, directory,
             TrialFilesCommand(files, row.id, ProgramFor(globals)), wait,
             units);
  if (profile) PrintProfile(*profile, globals);
  if (use) PrintUse(*use, context);
  PrintEvaluations(evaluations, units);
}

struct DescribeOptions : JsonOption {
  std::string target;
};

std::string BestText(const ExperimentRow& row, const Units& units) {
  if (!row.best) return "-";
  return row.metric + " " + FormatBest(row.best, units) + ", trial " +
         ToString(TrialId{row.id, row.best_trial}) +
         (row.best->checkpoint.empty() ? ", no checkpoint" : "");
}

void PrintRow(const ExperimentRow& row, double seconds, const SlotWait* wait,
              const Units& units) {
  std::cout << "experiment " << row.id << " '" << EscapeForTerminal(row.name)
            << "'\n";
  PrintFact("state", StateText(row.state, wait) +
                         (row.error.empty() ? "" : ": " + row.error));
  if (wait != nullptr) PrintFact("slots", wait->ToString());
  PrintFact("description", row.description);
  PrintFact("labels", Join(row.labels, ", "));
  PrintFact("progress", FormatProgress(row));
  PrintFact("searcher",
            row.searcher + ", " +
                (row.smaller_is_better ? "minimizing " : "maximizing ") +
                row.metric);
  PrintFact("best", BestText(row, units));
  PrintFact("seed", std::to_string(row.seed));
  PrintFact("created", FormatTime(row.created));
  PrintFact("started", FormatTime(row.started));
  PrintFact("ended", FormatTime(row.ended));
  PrintFact("duration", FormatSeconds(seconds));
}

// "5 to 100, 3 to 300, 2 to 900 batches", or "budget of 900 batches in all
// trials, at most 40".
std::string PlanText(const SearchPlan& plan, Unit unit) {
  if (plan.rows.empty()) {
    return "budget of " + BudgetText(plan, unit) + ", at most " +
           std::to_string(plan.max_trials);
  }
  std::vector<std::string> parts;
  for (const PlanRow& row : plan.rows) {
    if (row.length == 0) {
      return std::to_string(row.trials) +
             (row.trials == 1 ? " trial of program-defined length"
                              : " trials of program-defined length");
    }
    // The last one names the unit.
    const bool last = parts.size() + 1 == plan.rows.size();
    parts.push_back(
        std::to_string(row.trials) + " to " +
        (last ? LengthText(row.length, unit) : std::to_string(row.length)));
  }
  return Join(parts, ", ");
}

// Returns the number of trials that reached each rung.
std::vector<std::int64_t> TrialsByRung(const std::vector<TrialRow>& trials) {
  std::vector<std::int64_t> counts;
  for (const TrialRow& trial : trials) {
    const auto rungs = static_cast<std::size_t>(trial.rung);
    if (counts.size() < rungs) counts.resize(rungs);
    for (std::size_t i = 0; i < rungs; ++i) ++counts[i];
  }
  return counts;
}

// A search without several rungs has nothing to say here.
void PrintRungs(const SearcherConfig& searcher,
                const std::vector<TrialRow>& trials) {
  const auto brackets = PlanBrackets(searcher);
  const bool several = std::ranges::any_of(
      brackets, [](const Bracket& one) { return one.rungs.size() > 1; });
  const auto counts = TrialsByRung(trials);
  if (!several && counts.size() < 2) return;
  std::vector<std::string> parts;
  for (const std::int64_t count : counts) {
    parts.push_back(std::to_string(parts.size() + 1) + ": " +
                    std::to_string(count));
  }
  const auto early = std::ranges::count_if(trials, [](const TrialRow& trial) {
    return trial.reason.starts_with(kEndedEarly);
  });
  std::string text = Join(parts, ", ");
  if (early > 0) {
    text += (text.empty() ? "" : "; ") + CountText(early, "trial") +
            " ended early, before the next rung";
  }
  PrintFact("by rung", text);
}

// Simulations of a model take too long here.
std::optional<ExpectedSearch> QuickExpectation(const ExperimentConfig& config) {
  if (IsModelBased(config.searcher)) return std::nullopt;
  return ExpectSearch(config.searcher, config.hyperparameters);
}

void PrintSearch(const ExperimentConfig& config,
                 const std::vector<TrialRow>& trials) {
  if (config.searcher.name == "single" && config.searcher.repeats == 1) return;
  const SearcherConfig& searcher = config.searcher;
  PrintFact("plan", PlanText(PlanSearch(searcher, config.hyperparameters),
                             config.length_unit));
  const auto expected = QuickExpectation(config);
  if (expected && expected->simulations > 0) {
    PrintFact("expected", ExpectedText(*expected, config.length_unit));
  }
  PrintRungs(searcher, trials);
}

void PrintTrialStates(const std::vector<TrialRow>& trials) {
  std::map<std::string, int> states;
  for (const TrialRow& trial : trials) {
    ++states[std::string(StateName(trial.state))];
  }
  std::string text = std::to_string(trials.size());
  for (const auto& [state, count] : states) {
    text += ", " + std::to_string(count) + " " + state;
  }
  PrintFact("trials", text);
}

// "3.11.7, /usr/bin/python3, CUDA 12.4, 43 packages".
std::string PythonText(const nlohmann::json& python) {
  if (!python.is_object()) {
    return "not recorded: the command does not start Python itself, or it did "
           "not answer";
  }
  const auto text_of = [&](const char* name) {
    return python.value(name, std::string());
  };
  const nlohmann::json cuda = python.value("cuda", nlohmann::json());
  const auto packages =
      python.value("packages", nlohmann::json::object()).size();
  return text_of("version") + ", " + text_of("executable") +
         (cuda.is_string() ? ", torch for CUDA " + cuda.get<std::string>()
                           : "") +
         ", " + CountText(packages, "package");
}

void PrintProvenance(const nlohmann::json& provenance) {
  std::cout << "\norigin\n";
  const nlohmann::json context = ContextJson(provenance);
  if (!context.is_null()) {
    PrintFact("stored", ContextSize(context["files"], context["bytes"]) + ", " +
                            context["hash"].get<std::string>());
    for (const nlohmann::json& link : context["links"]) {
      PrintFact("linked", link.value("path", "") + " to " +
                              link.value("target", "") + ", " +
                              LinkedFilesText(link) + " at create");
    }
  }
  for (const auto& [name, value] : provenance.items()) {
    if (name.starts_with("context_")) continue;
    if (name == "python") {
      PrintFact(name, PythonText(value));
      continue;
    }
    if (name == kExtended) {
      for (const nlohmann::json& plan : value.at("plans")) {
        const nlohmann::json& budget = plan.at("budget");
        PrintFact(name, "to " + plan.at("max_trials").dump() + " trials" +
                            (budget.is_null() ? ""
                                              : " and a budget of " +
                                                    FormatHparams(budget)) +
                            " at " + plan.at("time").get<std::string>());
      }
      continue;
    }
    PrintFact(name, value.is_object()   ? FormatHparams(value)
                    : value.is_string() ? value.get<std::string>()
                                        : FormatValue(value));
  }
}

// Directory of its checkpoints outside of the store.
std::string StorageText(const Store& store, const ExperimentDetail& detail) {
  return (store.StorageRoot(detail.storage) / std::to_string(detail.row.id))
      .string();
}

void PrintRecord(const Store& store, const ExperimentDetail& detail,
                 double seconds) {
  const auto trials = ListTrials(store, detail.row);
  const ExperimentConfig config = ConfigFromJson(detail.config);
  const SlotQueueView queue(store);
  const Units units = FindUnits(store, detail.row.id, config);
  PrintRow(detail.row, seconds, queue.FindWait(detail.row), units);
  const bool is_imported = !ImportedText(detail).empty();
  if (!is_imported) PrintFact("entrypoint", EntrypointText(config));
  PrintFact("note", detail.note);
  if (!is_imported) PrintSearch(config, trials);
  PrintTrialStates(trials);
  PrintFact("metrics", Join(store.MetricNames(detail.row.id), ", "));
  if (!is_imported) {
    PrintFact("directory", store.layout().Experiment(detail.row.id).string());
  }
  if (!detail.storage.empty()) {
    PrintFact("checkpoints", StorageText(store, detail));
  }
  const DiskUse use = ReadDiskUse(store, detail.row.id);
  PrintFact("disk", use.Text() + "; database of all experiments " +
                        FormatBytes(DatabaseBytes(store)));
  PrintFact("keep less", HowToKeepLess(use, detail.row.id, detail.config));
  if (const auto used = store.FindSystemUse(detail.row.id)) {
    PrintUse(*used, FindUseContext(store, detail));
  }
  PrintEvaluations(store.Evaluations(detail.row.id), units);
  PrintNotifications(store.Notifications(detail.row.id), config);
  PrintProvenance(detail.provenance);
  if (is_imported) return;
  std::cout << '\n'
            << WrapForStdout("configuration ('dtrain config " +
                                 std::to_string(detail.row.id) +
                                 "' prints only this)",
                             0, kWrapIndent)
            << '\n';
  for (const std::string& line : Split(ToYaml(detail.config), '\n')) {
    if (!line.empty()) std::cout << "  " << EscapeForTerminal(line) << '\n';
  }
}

nlohmann::json RecordJson(const Store& store, const ExperimentDetail& detail,
                          double seconds) {
  const ExperimentConfig config = ConfigFromJson(detail.config);
  const SlotQueueView queue(store);
  nlohmann::json document =
      ExperimentJson(detail.row, seconds, queue.FindWait(detail.row));
  const Unit counted = CountedUnit(store, detail.row.id, config);
  AddLength(counted, document);
  document["entrypoint"] = EntrypointText(config);
  document["config"] = detail.config;
  document["yaml"] = detail.yaml;
  document["note"] = detail.note;
  document["provenance"] = detail.provenance;
  document["context"] = ContextJson(detail.provenance);
  document["search"] =
      PlanJson(PlanSearch(config.searcher, config.hyperparameters));
  document["search"]["expected"] = ExpectedJson(QuickExpectation(config));
  document["trials_by_rung"] = TrialsByRung(ListTrials(store, detail.row));
  document["metrics"] = store.MetricNames(detail.row.id);
  document["system"] = SystemUseJson(store.FindSystemUse(detail.row.id),
                                     FindUseContext(store, detail));
  document["evaluations"] =
      EvaluationsJson(store.Evaluations(detail.row.id), counted);
  document["notifications"] = nlohmann::json::array();
  for (const NotificationRow& row : store.Notifications(detail.row.id)) {
    if (!config.notify) break;
    document["notifications"].push_back(NotificationJson(*config.notify, row));
  }
  document["directory"] = store.layout().Experiment(detail.row.id).string();
  document["disk"] = ReadDiskUse(store, detail.row.id).Json();
  document["disk"]["database"] = DatabaseBytes(store);
  document["checkpoint_storage"] = nullptr;
  if (!detail.storage.empty()) {
    document["checkpoint_storage"] = StorageText(store, detail);
  }
  return document;
}

int Describe(const DescribeOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const Target target = ResolveTarget(store, options.target);
  const ExperimentDetail detail =
      FindExperimentDetail(store, target.experiment);
  if (target.trial) {
    DescribeTrial(store, detail, *target.trial, options.json, globals);
    return kExitDone;
  }
  const double seconds = ElapsedSeconds(detail.row, Clock::System().now());
  if (options.json) {
    PrintJson(RecordJson(store, detail, seconds));
  } else {
    PrintRecord(store, detail, seconds);
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpDescribe(CLI::App& app) {
  auto options = std::make_shared<DescribeOptions>();
  AddOption(app, "EXP", options->target, "Experiment (3) or trial (3.7)")
      .Completes(ValueKind::kTarget)
      .Required();
  AddJsonOption(app, *options);
  SetHelp(app,
          {.exits = ReaderExits(),
           .examples = {{"Show an experiment: state, plan, results, origin",
                         "dtrain describe 3"},
                        {"Show a trial with its hyperparameters and profile",
                         "dtrain describe 3.7"}}});
  return RunWith(Describe, options);
}

}  // namespace dtrain

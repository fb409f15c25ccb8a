#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/record_experiment.h"
#include "cli/store_access.h"
#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"
#include "engine/report/search_preview.h"
#include "searchers/search_plan.h"

namespace dtrain {
namespace {

struct DescribeOptions : JsonOption {
  std::string experiment;
};

void Line(const std::string& name, const std::string& value) {
  if (value.empty()) return;
  std::string label = "  " + EscapeForTerminal(name);
  label.resize(std::max<std::size_t>(label.size() + 2, 16), ' ');
  std::cout << label << EscapeForTerminal(value) << '\n';
}

std::string BestText(const ExperimentRow& row) {
  if (!row.best) return "-";
  return row.metric + " " + FormatBest(row.best) + ", trial " +
         ToString(TrialId{row.id, row.best_trial});
}

void PrintRow(const ExperimentRow& row, double seconds) {
  std::cout << "experiment " << row.id << " '" << EscapeForTerminal(row.name)
            << "'\n";
  Line("state", std::string(StateName(row.state)) +
                    (row.error.empty() ? "" : ": " + row.error));
  Line("description", row.description);
  Line("labels", Join(row.labels, ", "));
  Line("progress", FormatPercent(row.progress));
  Line("searcher", row.searcher + ", " +
                       (row.smaller_is_better ? "least " : "greatest ") +
                       row.metric);
  Line("best", BestText(row));
  Line("seed", std::to_string(row.seed));
  Line("created", FormatTime(row.created));
  Line("started", FormatTime(row.started));
  Line("ended", FormatTime(row.ended));
  Line("duration", FormatSeconds(seconds));
}

// "5 to 100, 3 to 300, 2 to 900 batches".
std::string PlanText(const SearchPlan& plan, Unit unit) {
  std::vector<std::string> parts;
  for (const PlanRow& row : plan.rows) {
    parts.push_back(std::to_string(row.trials) + " to " +
                    std::to_string(row.length));
  }
  return Join(parts, ", ") + " " + std::string(UnitName(unit));
}

// How many trials were validated at the end of each rung, from the first.
std::vector<std::int64_t> TrialsByRung(const std::vector<TrialRow>& trials) {
  std::vector<std::int64_t> counts;
  for (const TrialRow& trial : trials) {
    const auto rungs = static_cast<std::size_t>(trial.rung);
    if (counts.size() < rungs) counts.resize(rungs);
    for (std::size_t i = 0; i < rungs; ++i) ++counts[i];
  }
  return counts;
}

void PrintSearch(const ExperimentConfig& config,
                 const std::vector<TrialRow>& trials) {
  if (config.searcher.name == "single") return;
  Line("plan", PlanText(PlanSearch(config.searcher, config.hyperparameters),
                        config.length_unit));
  std::vector<std::string> parts;
  for (const std::int64_t count : TrialsByRung(trials)) {
    parts.push_back(std::to_string(parts.size() + 1) + ": " +
                    std::to_string(count));
  }
  Line("by rung", Join(parts, ", "));
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
  Line("trials", text);
}

void PrintProvenance(const nlohmann::json& provenance) {
  std::cout << "\nwhere it came from\n";
  const nlohmann::json context = ContextJson(provenance);
  if (!context.is_null()) {
    Line("stored", ContextSize(context["files"], context["bytes"]) + ", " +
                       context["hash"].get<std::string>());
  }
  for (const auto& [name, value] : provenance.items()) {
    if (name.starts_with("context_")) continue;
    Line(name, value.is_object() ? FormatHparams(value) : FormatValue(value));
  }
}

int Describe(const DescribeOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const ExperimentDetail detail =
      FindExperimentDetail(store, ParseExperimentId(options.experiment));
  const double seconds = ElapsedSeconds(detail.row, Clock::System().now());
  const auto trials = ListTrials(store, detail.row);
  const ExperimentConfig config = ConfigFromJson(detail.config);
  if (options.json) {
    nlohmann::json document = ExperimentJson(detail.row, seconds);
    document["entrypoint"] = EntrypointText(config);
    document["config"] = detail.config;
    document["yaml"] = detail.yaml;
    document["note"] = detail.note;
    document["provenance"] = detail.provenance;
    document["context"] = ContextJson(detail.provenance);
    document["search"] =
        PlanJson(PlanSearch(config.searcher, config.hyperparameters));
    document["trials_by_rung"] = TrialsByRung(trials);
    document["metrics"] = store.MetricNames(detail.row.id);
    document["directory"] = store.layout().Experiment(detail.row.id).string();
    PrintJson(document);
    return kExitDone;
  }
  PrintRow(detail.row, seconds);
  Line("entrypoint", EntrypointText(config));
  Line("note", detail.note);
  PrintSearch(config, trials);
  PrintTrialStates(trials);
  Line("metrics", Join(store.MetricNames(detail.row.id), ", "));
  Line("directory", store.layout().Experiment(detail.row.id).string());
  PrintProvenance(detail.provenance);
  std::cout << "\nconfiguration ('dtrain config " << detail.row.id
            << "' prints it alone)\n";
  for (const std::string& line : Split(ToYaml(detail.config), '\n')) {
    if (!line.empty()) std::cout << "  " << EscapeForTerminal(line) << '\n';
  }
  return kExitDone;
}

}  // namespace

void SetUpDescribe(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<DescribeOptions>();
  AddOption(app, "EXP", options->experiment, "Experiment").Required();
  AddJsonOption(app, *options);
  OnParsed(app, [options, &invocation] {
    invocation.run = [options, &invocation] {
      return Describe(*options, invocation.globals);
    };
  });
}

}  // namespace dtrain

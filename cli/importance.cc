// `dtrain importance`: which hyperparameters distinguish the best trials, by
// engine/analysis/importance.h.
//
// Trials are compared at one place: a length, or the best or last validation of
// each. Small samples mislead, so the command says on stderr how many trials
// the numbers rest on, whether ties have enlarged the best --quantile, and why
// all are 0.

#include "engine/analysis/importance.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/stores.h"
#include "engine/app/trial_values.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

// Fewer trials among the best make the result a matter of chance.
constexpr std::size_t kFewBest = 5;

struct ImportanceOptions : TableOptions {
  std::string experiment;
  std::string metric;
  std::string at;
  std::string quantile = "0.1";
};

double ParseQuantile(const std::string& text) {
  const auto value = ParseFinite(text);
  if (value && *value > 0 && *value < 1) return *value;
  throw Error(ErrorKind::kUsage,
              "--quantile: expected a number between 0 and 1, such as 0.1 for "
              "the best tenth, got '" +
                  text + "'");
}

nlohmann::json PlaceJson(const TrialValues& values) {
  switch (values.place.kind) {
    case ValuePlace::Kind::kBest:
      return "best";
    case ValuePlace::Kind::kLast:
      return "last";
    case ValuePlace::Kind::kLength:
      break;
  }
  const double length = values.place.length;
  const std::string unit(UnitName(values.unit));
  if (length != std::floor(length)) return {{unit, length}};
  return {{unit, static_cast<std::int64_t>(length)}};
}

Listing<HparamImportance> ImportanceListing() {
  return {.name = "importance",
          .columns = {{.name = "hparam", .elastic = true, .least = 12},
                      {.name = "importance", .right = true},
                      {.name = "correlation", .right = true}},
          .json =
              [](const HparamImportance& one) {
                return nlohmann::json{
                    {"hparam", one.name},
                    {"importance", one.share},
                    {"divergence", one.divergence},
                    {"correlation", one.correlation
                                        ? nlohmann::json(*one.correlation)
                                        : nlohmann::json(nullptr)}};
              },
          .cells =
              [](const HparamImportance& one) {
                const auto& correlation = one.correlation;
                return std::vector<Cell>{
                    one.name,
                    {FormatFixed(one.share * 100, 1) + "%",
                     FormatNumber(one.share)},
                    {correlation ? FormatFixed(*correlation, 2) : "-",
                     correlation ? FormatNumber(*correlation) : ""}};
              }};
}

// Returns why every importance is 0, or nothing if one is not.
std::string AllZeroReason(const std::vector<HparamImportance>& importances,
                          std::size_t best, std::size_t finite) {
  const bool zero = std::ranges::all_of(
      importances, [](const auto& one) { return one.divergence == 0; });
  if (!zero) return "";
  if (best < finite) return "each hyperparameter has a single value";
  return "all " + std::to_string(finite) +
         " trials count as the best, because the worst of them equals the last "
         "of the best --quantile; nothing distinguishes them";
}

// Tells on stderr how far the numbers can be trusted.
void PrintReliability(const std::vector<TrialOutcome>& outcomes,
                      const std::vector<HparamImportance>& importances,
                      std::size_t best, const TrialValues& values,
                      const MetricGoal& goal, double quantile,
                      const GlobalOptions& globals) {
  const std::size_t finite = CountFinite(outcomes);
  const auto requested = static_cast<std::size_t>(
      std::ceil(quantile * static_cast<double>(finite)));
  PrintNotice(globals, "importance for being among the best " +
                           std::to_string(best) + " of " +
                           std::to_string(finite) + " trials in " +
                           goal.metric + " (" +
                           (goal.smaller_is_better ? "smallest" : "largest") +
                           ") " + values.PlaceText());
  const std::string why_zero = AllZeroReason(importances, best, finite);
  if (!why_zero.empty()) {
    PrintNotice(globals, "note: every importance is 0: " + why_zero);
  } else if (best > requested) {
    PrintNotice(globals, "note: --quantile " + FormatNumber(quantile) + " is " +
                             CountText(requested, "trial") + "; " +
                             std::to_string(best - requested) +
                             " more have the same value as the last of them");
  }
  if (best < kFewBest) {
    PrintNotice(globals,
                "note: " + CountText(best, "trial is", "trials are") +
                    " few to compare with; use a larger --quantile or more "
                    "trials");
  }
}

// Returns a sentence why there is nothing to compute, or nothing.
std::string NoImportanceReason(const std::vector<SearchAxis>& axes,
                               const std::vector<TrialOutcome>& outcomes,
                               const TrialValues& values) {
  if (axes.empty()) return "its search space has no hyperparameter";
  const std::size_t finite = CountFinite(outcomes);
  if (finite >= kMinImportanceTrials) return "";
  return CountText(finite, "trial has", "trials have") + " a finite value of " +
         values.metric + " " + values.PlaceText() + ", and importance needs " +
         std::to_string(kMinImportanceTrials);
}

int Importance(const ImportanceOptions& options, const GlobalOptions& globals) {
  const double quantile = ParseQuantile(options.quantile);
  std::optional<ValuePlace> place;
  if (!options.at.empty()) place = ParseValuePlace("--at", options.at);
  const Store store = OpenStore(globals);
  const ExperimentDetail detail =
      FindExperimentDetail(store, ResolveExperiment(store, options.experiment));
  const MetricGoal goal = ParseMetricGoal(
      "--metric", options.metric.empty() ? detail.row.metric : options.metric,
      detail.row);
  const auto axes = SearchAxes(
      detail.config.value("hyperparameters", nlohmann::json::object()),
      detail.row.searcher == "grid");
  const TrialValues values = ReadTrialValues(store, detail, goal.metric, place);
  const auto outcomes = ReadOutcomes(store, detail.row.id, axes, values);
  const std::string why_none = NoImportanceReason(axes, outcomes, values);
  const std::size_t best =
      CountBest(outcomes, goal.smaller_is_better, quantile);
  std::vector<HparamImportance> importances;
  if (why_none.empty()) {
    importances =
        HparamImportances(axes, outcomes, goal.smaller_is_better, quantile);
    PrintReliability(outcomes, importances, best, values, goal, quantile,
                     globals);
  } else {
    PrintNotice(globals, "no importance of experiment " + options.experiment +
                             ": " + why_none);
    if (options.format() == Format::kText) return kExitDone;
  }
  PrintListing(ImportanceListing(), importances, options.format(), globals,
               {{"experiment", detail.row.id},
                {"metric", goal.metric},
                {"smaller_is_better", goal.smaller_is_better},
                {"at", PlaceJson(values)},
                {"quantile", quantile},
                {"trials", outcomes.size()},
                {"best_trials", best}});
  return kExitDone;
}

}  // namespace

CommandRun SetUpImportance(CLI::App& app) {
  auto options = std::make_shared<ImportanceOptions>();
  AddOption(app, "EXP", options->experiment, "Experiment ID (3)").Required();
  AddOption(app, "--metric", options->metric,
            "Validation metric; M:min or M:max if it is not the searcher's")
      .TypeName("METRIC");
  AddOption(
      app, "--at", options->at,
      "Compare at this length, in the unit of searcher.max_length, or each "
      "trial's best or last validation")
      .TypeName("LENGTH|best|last")
      .Suggests({"best", "last"});
  AddOption(app, "--quantile", options->quantile,
            "Share of trials that count as the best, between 0 and 1")
      .TypeName("Q")
      .ShowDefault();
  AddTableOptions(app, *options);
  SetHelp(
      app,
      {.notes =
           "Importance is the share of a hyperparameter in what distinguishes "
           "the best trials from all (PED-ANOVA). Correlation is Spearman's, "
           "from -1 to 1, of the hyperparameter with the metric.",
       .exits = ReaderExits(),
       .examples = {
           {"Show which hyperparameters mattered", "dtrain importance 3"},
           {"Compare trials after 10 epochs",
            "dtrain importance 3 --at 10 --metric val_loss:min"}}});
  return RunWith(Importance, options);
}

}  // namespace dtrain

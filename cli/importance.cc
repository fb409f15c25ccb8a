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
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/selection.h"
#include "engine/app/stores.h"
#include "engine/app/trial_values.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

struct ImportanceOptions : TableOptions {
  std::vector<std::string> experiments;
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

Listing<HparamImportance> ImportanceListing() {
  return {
      .name = "importance",
      .columns = {{.name = "hparam", .elastic = true, .least = 12},
                  {.name = "importance", .right = true},
                  {.name = "low", .right = true},
                  {.name = "high", .right = true},
                  {.name = "correlation", .right = true}},
      .json =
          [](const HparamImportance& one) {
            return nlohmann::json{
                {"hparam", one.name},
                {"importance", one.share},
                {"low", one.low},
                {"high", one.high},
                {"divergence", one.divergence},
                {"trials", one.trials},
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
                {FormatFixed(one.low * 100, 0) + "%", FormatNumber(one.low)},
                {FormatFixed(one.high * 100, 0) + "%", FormatNumber(one.high)},
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
  std::vector<std::string> partial;
  for (const HparamImportance& one : importances) {
    if (one.trials == finite) continue;
    partial.push_back(one.name + " (in " + std::to_string(one.trials) + ")");
  }
  if (!partial.empty()) {
    PrintNotice(globals,
                "note: not in all trials, and judged by those that "
                "have them: " +
                    JoinFirst(partial, 5));
  }
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

// Widens an axis to the values of one of the same name in another experiment.
void WidenAxis(const SearchAxis& more, const std::string& where,
               SearchAxis& axis) {
  if (axis.choices.empty() != more.choices.empty() || axis.log != more.log) {
    const auto kind = [](const SearchAxis& one) {
      return std::string(!one.choices.empty() ? "a list"
                         : one.log            ? "a logarithmic range"
                                              : "a range");
    };
    throw Error(ErrorKind::kUsage,
                "hyperparameter " + axis.name + " is " + kind(more) + " in " +
                    where + " and " + kind(axis) +
                    " in another experiment, so its importance cannot be "
                    "computed for both; give them one at a time");
  }
  for (const nlohmann::json& choice : more.choices) {
    if (std::ranges::count(axis.choices, choice) == 0) {
      axis.choices.push_back(choice);
    }
  }
  if (axis.choices.empty()) {
    axis.low = std::min(axis.low, more.low);
    axis.high = std::max(axis.high, more.high);
    if (axis.step != more.step) axis.step.reset();
  } else {
    axis.high = static_cast<double>(axis.choices.size() - 1);
  }
}

// Returns the axes of all experiments, each once and wide enough for all.
std::vector<SearchAxis> JointAxes(const ExperimentGroup& group) {
  std::vector<SearchAxis> axes;
  for (const ExperimentDetail& detail : group.all()) {
    for (SearchAxis& axis : SearchAxes(
             detail.config.value("hyperparameters", nlohmann::json::object()),
             detail.row.searcher == "grid")) {
      const auto same = std::ranges::find(axes, axis.name, &SearchAxis::name);
      if (same == axes.end()) {
        axes.push_back(std::move(axis));
      } else {
        WidenAxis(axis, "experiment " + std::to_string(detail.row.id), *same);
      }
    }
  }
  return axes;
}

// Reads the values of all experiments at one place, and adds the outcomes of
// their trials. A default place is chosen by the experiment with the most
// trials.
TrialValues ReadJointValues(const Store& store, const ExperimentGroup& group,
                            const std::string& metric,
                            std::optional<ValuePlace> place,
                            const std::vector<SearchAxis>& axes,
                            std::vector<TrialOutcome>& outcomes) {
  if (!place && group.all().size() > 1) {
    const ExperimentDetail& largest = *std::ranges::max_element(
        group.all(), {},
        [](const ExperimentDetail& detail) { return detail.row.trials; });
    place = ReadTrialValues(store, largest, metric, place).place;
  }
  std::optional<TrialValues> first;
  for (const ExperimentDetail& detail : group.all()) {
    const TrialValues values = ReadTrialValues(store, detail, metric, place);
    std::ranges::move(ReadOutcomes(store, detail, axes, values),
                      std::back_inserter(outcomes));
    if (!first) first = values;
    if (values.place.kind == ValuePlace::Kind::kLength &&
        values.unit != first->unit) {
      throw Error(ErrorKind::kUsage,
                  "the lengths of experiment " +
                      std::to_string(group.first().row.id) + " are " +
                      std::string(UnitName(first->unit)) +
                      ", those of experiment " + std::to_string(detail.row.id) +
                      " " + std::string(UnitName(values.unit)) +
                      "; use --at best or --at last");
    }
  }
  return *std::move(first);
}

int Importance(const ImportanceOptions& options, const GlobalOptions& globals) {
  const double quantile = ParseQuantile(options.quantile);
  std::optional<ValuePlace> place;
  if (!options.at.empty()) place = ParseValuePlace("--at", options.at);
  const Store store = OpenStore(globals);
  const ExperimentGroup group(store, options.experiments);
  const MetricGoal goal = ParseMetricGoal(
      "--metric", options.metric.empty() ? group.metric() : options.metric,
      group.first().row);
  const auto axes = JointAxes(group);
  std::vector<TrialOutcome> outcomes;
  const TrialValues values =
      ReadJointValues(store, group, goal.metric, place, axes, outcomes);
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
    PrintNotice(globals, "no importance of " + group.Text() + ": " + why_none);
    if (options.format() == Format::kText) return kExitDone;
  }
  nlohmann::json document = group.Document();
  document.update({{"metric", goal.metric},
                   {"smaller_is_better", goal.smaller_is_better},
                   {"at", values.PlaceJson()},
                   {"quantile", quantile},
                   {"trials", outcomes.size()},
                   {"best_trials", best}});
  PrintListing(ImportanceListing(), importances, options.format(), globals,
               std::move(document));
  return kExitDone;
}

}  // namespace

CommandRun SetUpImportance(CLI::App& app) {
  auto options = std::make_shared<ImportanceOptions>();
  AddOption(app, "EXP", options->experiments,
            "Experiments with one metric (3 5 7-9)")
      .Required();
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
           "from -1 to 1, of the hyperparameter with the metric. LOW and HIGH: "
           "in 90 % of samples from these trials the importance lies between "
           "(bootstrap).",
       .exits = ReaderExits(),
       .examples = {
           {"Show which hyperparameters mattered", "dtrain importance 3"},
           {"Compare trials after 10 epochs",
            "dtrain importance 3 --at 10 --metric val_loss:min"}}});
  return RunWith(Importance, options);
}

}  // namespace dtrain

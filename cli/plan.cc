#include "cli/plan.h"

#include <iostream>

#include "cli/output.h"
#include "cli/record_experiment.h"
#include "engine/base/text.h"
#include "engine/report/search_preview.h"
#include "searchers/search_plan.h"
#include "searchers/simulation.h"

namespace dtrain {
namespace {

std::string LengthText(const ExperimentConfig& config) {
  if (config.searcher.max_length == 0) return "the length that it decides";
  return std::to_string(config.searcher.max_length) + " " +
         std::string(UnitName(config.length_unit));
}

nlohmann::json ContextPlanJson(const std::optional<ContextList>& context) {
  if (!context) return nullptr;
  return {{"files", context->files.size()}, {"bytes", context->bytes}};
}

std::string ContextText(const std::optional<ContextList>& context) {
  if (!context) return "";
  return ", and store " +
         ContextSize(std::ssize(context->files), context->bytes) + " of " +
         context->directory.string();
}

std::int64_t TrialsOf(const SearchPlan& plan) {
  std::int64_t trials = 0;
  for (const PlanRow& row : plan.rows) trials += row.trials;
  return trials;
}

// How many of the trials are expected to train to the end, where not all are.
std::string ReachText(const std::optional<ExpectedSearch>& expected,
                      std::int64_t max_length) {
  if (!expected || expected->simulations == 0) return "";
  const ExpectedRange range = expected->trials.at(max_length);
  return " (" + (range.max == 0 ? "none" : RangeText(range)) +
         " expected to get that far)";
}

}  // namespace

void PrintPlan(const ExperimentConfig& config, const SlotPlan& slots,
               const std::optional<ContextList>& context, bool json) {
  const SearcherConfig& searcher = config.searcher;
  const std::int64_t trials =
      TrialsOf(PlanSearch(searcher, config.hyperparameters));
  const auto expected = ExpectSearch(searcher, config.hyperparameters);
  if (json) {
    PrintJson({{"dry_run", true},
               {"name", config.name},
               {"entrypoint", EntrypointText(config)},
               {"searcher", searcher.name},
               {"metric", searcher.metric},
               {"smaller_is_better", searcher.smaller_is_better},
               {"max_trials", trials},
               {"max_length", MaxLengthJson(config)},
               {"expected", ExpectedJson(expected)},
               {"slots", slots.ToString()},
               {"context", ContextPlanJson(context)},
               {"config", config.effective}});
    return;
  }
  const std::string text =
      "would run '" + config.name + "': " + searcher.name + " search for the " +
      (searcher.smaller_is_better ? "least " : "greatest ") + searcher.metric +
      " by " + EntrypointText(config) + ", up to " + std::to_string(trials) +
      (trials == 1 ? " trial of " : " trials of ") + LengthText(config) +
      ReachText(expected, searcher.max_length) + " on " + slots.ToString() +
      ContextText(context);
  std::cout << EscapeForTerminal(text) << "\n\n";
  PrintYaml(ToYaml(config.effective));
}

}  // namespace dtrain

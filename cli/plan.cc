#include "cli/plan.h"

#include <iostream>

#include "cli/output.h"
#include "cli/record_experiment.h"
#include "engine/base/text.h"
#include "searchers/search_plan.h"

namespace dtrain {
namespace {

std::string LengthText(const ExperimentConfig& config) {
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

}  // namespace

void PrintPlan(const ExperimentConfig& config, const SlotPlan& slots,
               const std::optional<ContextList>& context, bool json) {
  const SearcherConfig& searcher = config.searcher;
  const std::int64_t trials =
      TrialsOf(PlanSearch(searcher, config.hyperparameters));
  if (json) {
    PrintJson(
        {{"dry_run", true},
         {"name", config.name},
         {"entrypoint", EntrypointText(config)},
         {"searcher", searcher.name},
         {"metric", searcher.metric},
         {"smaller_is_better", searcher.smaller_is_better},
         {"max_trials", trials},
         {"max_length", {{UnitName(config.length_unit), searcher.max_length}}},
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
      " on " + slots.ToString() + ContextText(context);
  std::cout << EscapeForTerminal(text) << "\n\n" << ToYaml(config.effective);
}

}  // namespace dtrain

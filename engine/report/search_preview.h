#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/length.h"
#include "engine/report/terminal.h"
#include "searchers/search_plan.h"
#include "searchers/searcher.h"
#include "searchers/simulation.h"

namespace dtrain {

// Plan and simulation of a search without training, for `dtrain
// preview-search`.

/// {"plan": […], "brackets": […], "total_length": …, "max_seconds": …}. A
/// length that a program decides itself is null.
nlohmann::json PlanJson(const SearchPlan& plan);
/// Budget of a model-based search: "500 epochs in all trials".
std::string BudgetText(const SearchPlan& plan, Unit unit);
/// {"simulations", "trials": [{"length", "min", "max"}], "total_length":
/// {"min", "max"}}, or null where nothing was simulated.
nlohmann::json ExpectedJson(const std::optional<ExpectedSearch>& expected);
/// "3" or "3-5".
std::string RangeText(const ExpectedRange& range);
/// "5-6 to 100, 0-1 to 300, 0 to 900 batches".
std::string ExpectedText(const ExpectedSearch& expected, Unit unit);

/// A planned search.
struct PlannedSearch {
  const SearcherConfig& config;
  Unit unit = Unit::kBatches;  // of every length
  const SearchPlan& plan;
  std::optional<ExpectedSearch> expected = {};  // none: was not simulated
};

/// Prints how many trials end at which length, ideally and as simulated, the
/// brackets, and the total length.
void PrintSearchPlan(const PlannedSearch& search, const TerminalMode& mode,
                     std::ostream& out);

/// The searched hyperparameters, each with the values that it can have (of a
/// `log` range too, whose bounds are exponents): [{"name", "type", "minval",
/// "maxval", "log"} or {"name", "type", "vals"}]; `log` is true where values
/// are drawn in the logarithm. Ranges with steps have "step", normal ones
/// "mean" and "std", and bounds only if they are cut off; conditional ones
/// "when" and perhaps "else".
nlohmann::json RangesJson(const nlohmann::json& hyperparameters);

/// Prints the ranges as a table; nothing if nothing is searched.
void PrintRanges(const nlohmann::json& hyperparameters,
                 const TerminalMode& mode, std::ostream& out);

/// A search simulated with a synthetic metric.
struct PlayedSearch {
  const SearcherConfig& config;
  const nlohmann::json& hyperparameters;  // of the configuration
  Unit unit = Unit::kBatches;
  const Simulation& simulation;
  SimulatedMetric metric = nullptr;
};

/// Prints how many trials ended at which length, and the best few of them.
void PrintSimulation(const PlayedSearch& search, const TerminalMode& mode,
                     std::ostream& out);

/// {"n_trials": …, "trials_by_final_length": {…}, "trials": […]}, a trial a
/// line: written as it goes, for a search may have very many.
void WriteSimulationJson(const Simulation& simulation, std::ostream& out,
                         bool terminal = false);

}  // namespace dtrain

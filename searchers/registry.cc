#include "searchers/registry.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "searchers/hparam_space.h"
#include "searchers/search_plan.h"

namespace dtrain {

// Each is defined in the source of its method.
using Maker = std::unique_ptr<Searcher>(const SearcherConfig& config,
                                        const nlohmann::json& hyperparameters,
                                        std::uint32_t seed);
Maker MakeBayesianSearcher;
Maker MakeGridSearcher;
Maker MakeHalvingSearcher;
Maker MakeRandomSearcher;
Maker MakeRehearsalSearcher;
Maker MakeSingleSearcher;

namespace {

std::int64_t OneTrial(const SearcherConfig&, const nlohmann::json&) {
  return 1;
}

std::int64_t MaxTrials(const SearcherConfig& config, const nlohmann::json&) {
  return config.max_trials;
}

std::int64_t GridPoints(const SearcherConfig&,
                        const nlohmann::json& hyperparameters) {
  return HparamGrid(hyperparameters).size();
}

// Everything that distinguishes the methods for other modules: which keys of
// `searcher` each has, how it is made, how many trials or brackets it plans. A
// method is added by a row here and its source.
constexpr std::array kTable = {
    SearcherEntry{.name = "single",
                  .keys = "stops",
                  .make = MakeSingleSearcher,
                  .trials = OneTrial},
    SearcherEntry{.name = "random",
                  .keys = "max_trials max_concurrent_trials points",
                  .make = MakeRandomSearcher,
                  .trials = MaxTrials},
    SearcherEntry{.name = "grid",
                  .keys = "max_concurrent_trials",
                  .make = MakeGridSearcher,
                  .trials = GridPoints},
    SearcherEntry{.name = "async_halving",
                  .alias = "asha",
                  .keys = "max_trials max_concurrent_trials num_rungs divisor "
                          "stop_once points",
                  .make = MakeHalvingSearcher,
                  .brackets = AsyncHalvingBrackets},
    SearcherEntry{.name = "adaptive_asha",
                  .keys = "max_trials max_concurrent_trials divisor stop_once "
                          "mode max_rungs bracket_rungs points",
                  .make = MakeHalvingSearcher,
                  .brackets = AdaptiveAshaBrackets},
    SearcherEntry{.name = "bayesian_asha",
                  .alias = "bayesian",
                  .keys = "max_trials max_concurrent_trials num_rungs divisor "
                          "points budget cost warm_start",
                  .make = MakeBayesianSearcher,
                  .brackets = BayesianBrackets,
                  .model_based = true},
};

}  // namespace

std::span<const SearcherEntry> SearcherTable() { return kTable; }

const SearcherEntry* FindSearcher(std::string_view name) {
  const auto found = std::ranges::find(kTable, name, &SearcherEntry::name);
  return found == kTable.end() ? nullptr : &*found;
}

std::unique_ptr<Searcher> MakeSearcher(const SearcherConfig& config,
                                       const nlohmann::json& hyperparameters,
                                       std::uint32_t seed) {
  // Not in the table, since no configuration may name it: `create --test` does.
  if (config.name == kRehearsal) {
    return MakeRehearsalSearcher(config, hyperparameters, seed);
  }
  const SearcherEntry* entry = FindSearcher(config.name);
  assert(entry != nullptr && "the configuration was checked by the table");
  return entry->make(config, hyperparameters, seed);
}

}  // namespace dtrain

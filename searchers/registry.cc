#include "searchers/registry.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "searchers/hparam_grid.h"
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

// As searchers/repeats.h has them.
SearcherConfig PointSearch(const SearcherConfig& config);
std::unique_ptr<Searcher> MakeRepeatedSearcher(
    std::unique_ptr<Searcher> points, const SearcherConfig& config,
    const nlohmann::json& hyperparameters);

namespace {

std::int64_t OneTrial(const SearcherConfig&, const nlohmann::json&) {
  return 1;
}

std::int64_t MaxTrials(const SearcherConfig& config, const nlohmann::json&) {
  return config.max_trials;
}

std::int64_t GridPoints(const SearcherConfig& config,
                        const nlohmann::json& hyperparameters) {
  return HparamGrid(hyperparameters, HparamGrid::kNoLimit, config.constraints)
      .size();
}

// Everything that distinguishes the methods for other modules: which keys of
// `searcher` each has, how it is made, how many trials or brackets it plans. A
// method is added by a row here and its source.
constexpr std::array kTable = {
    SearcherEntry{.name = "single",
                  .keys = "stops repeats repeat_metric",
                  .make = MakeSingleSearcher,
                  .trials = OneTrial},
    SearcherEntry{.name = "random",
                  .keys = "max_trials max_concurrent_trials repeats "
                          "repeat_metric constraints points warm_start",
                  .make = MakeRandomSearcher,
                  .trials = MaxTrials},
    SearcherEntry{
        .name = "grid",
        .keys = "max_concurrent_trials repeats repeat_metric constraints",
        .make = MakeGridSearcher,
        .trials = GridPoints},
    SearcherEntry{.name = "async_halving",
                  .alias = "asha",
                  .keys = "max_trials max_concurrent_trials num_rungs divisor "
                          "stop_once constraints points warm_start",
                  .make = MakeHalvingSearcher,
                  .brackets = AsyncHalvingBrackets},
    SearcherEntry{.name = "adaptive_asha",
                  .keys = "max_trials max_concurrent_trials divisor stop_once "
                          "mode max_rungs bracket_rungs constraints points "
                          "warm_start",
                  .make = MakeHalvingSearcher,
                  .brackets = AdaptiveAshaBrackets},
    SearcherEntry{.name = "bayesian_asha",
                  .alias = "bayesian",
                  .keys = "max_trials max_concurrent_trials num_rungs divisor "
                          "repeats repeat_metric constraints points budget "
                          "cost warm_start",
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
  if (config.repeats > 1) {
    return MakeRepeatedSearcher(
        entry->make(PointSearch(config), hyperparameters, seed), config,
        hyperparameters);
  }
  return entry->make(config, hyperparameters, seed);
}

}  // namespace dtrain

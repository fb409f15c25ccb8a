#include "searchers/registry.h"

#include <array>
#include <cassert>

#include "searchers/grid_searcher.h"
#include "searchers/halving_searcher.h"
#include "searchers/random_searcher.h"
#include "searchers/rehearsal_searcher.h"

namespace dtrain {
namespace {

constexpr std::array kTable = {
    SearcherEntry{"adaptive_asha", MakeHalvingSearcher},
    SearcherEntry{"async_halving", MakeHalvingSearcher},
    SearcherEntry{"grid", MakeGridSearcher},
    SearcherEntry{"random", MakeRandomSearcher},
    SearcherEntry{"single", MakeSingleSearcher},
};

}  // namespace

std::span<const SearcherEntry> SearcherTable() { return kTable; }

std::unique_ptr<Searcher> MakeSearcher(const SearcherConfig& config,
                                       const nlohmann::json& hyperparameters,
                                       std::uint32_t seed) {
  if (config.name == kRehearsal) {
    return MakeRehearsalSearcher(config, hyperparameters, seed);
  }
  for (const SearcherEntry& entry : kTable) {
    if (entry.name == config.name) {
      return entry.make(config, hyperparameters, seed);
    }
  }
  assert(false && "the configuration was checked against the table");
  return nullptr;
}

}  // namespace dtrain

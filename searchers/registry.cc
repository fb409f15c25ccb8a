#include "searchers/registry.h"

#include <array>
#include <cassert>

#include "searchers/single_searcher.h"

namespace dtrain {
namespace {

constexpr std::array kTable = {
    SearcherEntry{"single", MakeSingleSearcher},
};

}  // namespace

std::span<const SearcherEntry> SearcherTable() { return kTable; }

std::unique_ptr<Searcher> MakeSearcher(const SearcherConfig& config,
                                       const nlohmann::json& hyperparameters,
                                       std::uint32_t seed) {
  for (const SearcherEntry& entry : kTable) {
    if (entry.name == config.name) {
      return entry.make(config, hyperparameters, seed);
    }
  }
  assert(false && "the configuration was checked against the table");
  return nullptr;
}

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

#include "searchers/searcher.h"
#include "searchers/searcher_config.h"

namespace dtrain {

/// One search method. Adding one is a file pair and a row of the table in
/// registry.cc.
struct SearcherEntry {
  std::string_view name;
  std::unique_ptr<Searcher> (*make)(const SearcherConfig& config,
                                    const nlohmann::json& hyperparameters,
                                    std::uint32_t seed);
};

/// Every method that this build can run.
std::span<const SearcherEntry> SearcherTable();

/// The searcher of a checked configuration. `hyperparameters` is the object
/// of the YAML, `seed` the experiment's. REQUIRES: `config.name` is in the
/// table, and the hyperparameters are valid (HparamSpace checks them).
std::unique_ptr<Searcher> MakeSearcher(const SearcherConfig& config,
                                       const nlohmann::json& hyperparameters,
                                       std::uint32_t seed);

}  // namespace dtrain

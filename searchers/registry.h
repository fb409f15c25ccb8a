#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/searcher.h"

namespace dtrain {

struct Bracket;  // searchers/search_plan.h

/// A search method. The table of these rows in registry.cc is read by the
/// configuration's schema (names and keys), by PlanSearch and by the tests: a
/// new method is one source file and one row.
struct SearcherEntry {
  std::string_view name;   // as in searcher.name
  std::string_view alias;  // another name for it, or empty
  /// Keys of the section `searcher` that only some methods have and this one
  /// has too, separated by blanks.
  std::string_view keys;
  std::unique_ptr<Searcher> (*make)(const SearcherConfig& config,
                                    const nlohmann::json& hyperparameters,
                                    std::uint32_t seed);
  /// Number of trials, each trained to `max_length`. Null for methods with
  /// `brackets`.
  std::int64_t (*trials)(const SearcherConfig& config,
                         const nlohmann::json& hyperparameters);
  /// Brackets of successive halving. Null for other methods.
  std::vector<Bracket> (*brackets)(const SearcherConfig& config);
  /// True if a model of the results decides, within a budget, how many trials
  /// reach a rung of the brackets.
  bool model_based = false;
};

/// Returns every method that a configuration can name, in the order of the
/// reference.
std::span<const SearcherEntry> SearcherTable();

/// Returns the row of `name`, or null.
const SearcherEntry* FindSearcher(std::string_view name);

/// Name of the search of `create --test`. No configuration can name it.
inline constexpr std::string_view kRehearsal = "rehearsal";

/// Creates the searcher of a checked configuration. `hyperparameters` is the
/// map of the YAML, `seed` the experiment's. REQUIRES: `config.name` is in the
/// table or kRehearsal, and the hyperparameters are valid.
std::unique_ptr<Searcher> MakeSearcher(const SearcherConfig& config,
                                       const nlohmann::json& hyperparameters,
                                       std::uint32_t seed);

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/searcher_config.h"

namespace dtrain {

/// One run of successive halving inside a search.
struct Bracket {
  std::int64_t max_trials = 0;
  std::int64_t max_concurrent_trials = 0;  // 0: as many as the rungs ask for
  std::vector<std::int64_t> rungs;         // lengths, strictly ascending

  friend bool operator==(const Bracket&, const Bracket&) = default;
};

/// How many trials end at a length.
struct PlanRow {
  std::int64_t trials = 0;
  std::int64_t length = 0;

  friend bool operator==(const PlanRow&, const PlanRow&) = default;
};

/// What a search does if no trial fails and every result comes at once.
struct SearchPlan {
  std::vector<PlanRow> rows;      // by length, ascending; rows of 0 stay
  std::vector<Bracket> brackets;  // of the ASHA family; empty for the others
  // Trained by all trials together; the largest number where it is beyond it.
  std::int64_t total_length = 0;
};

/// a·b + c, or the largest number where it is beyond it. REQUIRES: none is
/// negative.
std::int64_t MultiplyAdd(std::int64_t a, std::int64_t b, std::int64_t c);

/// The fewest trials of a bracket that surely take one of them to its top, if
/// none fails.
std::int64_t TrialsForTop(const Bracket& bracket, double divisor);

/// The brackets of async_halving (one) and adaptive_asha, in their order; none
/// for the other methods. Rungs of equal length are merged.
std::vector<Bracket> PlanBrackets(const SearcherConfig& config);

/// How many trials a bracket begins with, and keeps going: what was asked for,
/// else what its rungs need for one trial at the top.
std::int64_t TrialsAtStart(const Bracket& bracket, double divisor);

/// The plan of any method. `hyperparameters` is the object of the YAML: a grid
/// is as large as it says. REQUIRES: both were checked.
SearchPlan PlanSearch(const SearcherConfig& config,
                      const nlohmann::json& hyperparameters);

/// How many trials the search has work for at once, at most.
std::int64_t TrialsAtOnce(const SearcherConfig& config,
                          const nlohmann::json& hyperparameters);

}  // namespace dtrain

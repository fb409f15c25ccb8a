#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/searcher.h"

namespace dtrain {

/// One instance of successive halving within a search.
struct Bracket {
  std::int64_t max_trials = 0;
  std::int64_t max_concurrent_trials = 0;  // 0: as the rungs require
  std::vector<std::int64_t> rungs;         // lengths, strictly ascending

  friend bool operator==(const Bracket&, const Bracket&) = default;
};

/// Number of trials that end at a length.
struct PlanRow {
  std::int64_t trials = 0;
  std::int64_t length = 0;

  friend bool operator==(const PlanRow&, const PlanRow&) = default;
};

/// Course of a search in which no trial fails and all results are known at
/// once.
struct SearchPlan {
  // By length, ascending; includes rows of 0. Empty for a model-based search,
  // which depends on the results.
  std::vector<PlanRow> rows;
  std::vector<Bracket> brackets;  // empty without successive halving
  // Sum over all trials; the maximum of its type on overflow. 0 if only time
  // limits the search.
  std::int64_t total_length = 0;
  std::int64_t max_trials = 0;  // without invalid ones
  // Training time of all trials that ends the search; 0: unlimited.
  double max_seconds = 0;
};

/// Returns a·b + c, or the maximum of the type on overflow. REQUIRES: no
/// argument is negative.
std::int64_t MultiplyAdd(std::int64_t a, std::int64_t b, std::int64_t c);

/// Returns the minimum number of trials of a bracket that guarantees that one
/// reaches the top rung if none fails.
std::int64_t TrialsForTop(const Bracket& bracket, double divisor);

/// Return the brackets of the two methods (async_halving has one). Rungs of
/// equal length are merged.
std::vector<Bracket> AsyncHalvingBrackets(const SearcherConfig& config);
std::vector<Bracket> AdaptiveAshaBrackets(const SearcherConfig& config);

/// Returns the brackets of any method; none without successive halving.
std::vector<Bracket> PlanBrackets(const SearcherConfig& config);

/// Returns the bracket of a model-based search. Without num_rungs it has the
/// rungs of async_halving, and one more below if the budget is 15 full
/// trainings or more and the lowest rung is longer than 1. By rules 1 it has 5.
std::vector<Bracket> BayesianBrackets(const SearcherConfig& config);

/// Returns the configuration of a search that is extended to `max_trials`: with
/// the rungs as created, among whose brackets the trials are shared by the same
/// weights, and for a model-based search the budget of the new plan if
/// `created` has none.
SearcherConfig ExtendPlan(SearcherConfig created, std::int64_t max_trials);

/// True if a model of the results decides how many trials reach a rung.
bool IsModelBased(const SearcherConfig& config);

/// Return the budget of a model-based search: the length that all trials
/// together may train (0: only time limits it), and the number that train at
/// the same time.
std::int64_t SearchBudget(const SearcherConfig& config);
std::int64_t CountPlaces(const SearcherConfig& config);

/// True if a model-based search weighs results by the time that they take, not
/// by their length. The default is time if the budget is a duration.
bool CountsTime(const SearcherConfig& config);

/// Returns the number of trials, and of results, that a model-based search over
/// this many hyperparameters needs before its model decides.
std::size_t TrialsBeforeModel(std::size_t dimensions);

/// Returns the number of trials that a bracket starts with and keeps running:
/// the configured number, or the number that its rungs need for one trial at
/// the top.
std::int64_t TrialsAtStart(const Bracket& bracket, double divisor);

/// Returns the plan of any method. `hyperparameters` is the map of the YAML,
/// which determines the size of a grid. REQUIRES: both were checked.
SearchPlan PlanSearch(const SearcherConfig& config,
                      const nlohmann::json& hyperparameters);

/// Returns the maximum number of trials that the search runs at the same time.
std::int64_t TrialsAtOnce(const SearcherConfig& config,
                          const nlohmann::json& hyperparameters);

}  // namespace dtrain

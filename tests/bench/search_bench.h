#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/learning_curves.h"

namespace dtrain {

/// Simulations of searchers on a task.
struct SearchSimulations {
  std::vector<std::string> searchers;  // sections `searcher`, as flow maps
  std::uint32_t seeds = 10;            // seeds 0 to seeds − 1
  int workers = 4;
  double budget = 8;      // in median full trainings of each worker
  std::string reference;  // file of the normalization, or empty
  std::string space;      // flow map in place of the task's, or empty
  bool trajectories = false;
};

/// Simulates searches by asynchronous workers: a step takes the time of the
/// task, decisions and pauses none, and nothing fails. A searcher needs no more
/// than `{name: random}`; `metric`, `max_length`, `max_trials` (a million) and
/// `max_concurrent_trials` (the number of workers) are added.
///
/// The regret at a time is that of the trial and step with the lowest reported
/// error so far, without its noise: 0 is the lowest error of random trainings
/// of the task, 1 their median. Times are in median full trainings. A search
/// that ends by itself within the budget has a `plan_regret`. Throws
/// Error(kUsage) if a searcher or the file of the normalization is invalid.
nlohmann::json SimulateSearches(const SearchTask& task,
                                const SearchSimulations& options);

/// Describes the task in a line of JSON, then answers each line of `in`, the
/// hyperparameters of a trial, with its curve. Throws Error(kUsage) for invalid
/// hyperparameters.
void ServeTask(const SearchTask& task, const std::string& reference,
               std::istream& in, std::ostream& out);

}  // namespace dtrain

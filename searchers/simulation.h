#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/searcher.h"

namespace dtrain {

/// A simulated metric of a trial at a length.
using SimulatedMetric =
    std::function<double(TrialIndex trial, std::int64_t length)>;

/// Returns the metric with a name (constant, trial_index, neg_trial_index,
/// hash, hash_step), or nullptr.
SimulatedMetric FindSimulatedMetric(std::string_view name);
/// Returns these names, for messages.
std::vector<std::string> SimulatedMetricNames();

/// Order in which the operations of the trials are executed.
enum class SimulationOrder {
  kRoundRobin,  // rounds of one operation for each existing trial
  kSequential,  // always the first trial, in creation order, that has one
};

/// Makes a trial exit early at its next training operation after `after`
/// validations.
struct SimulatedExit {
  TrialIndex trial = 0;
  std::int64_t after = 0;
  ExitReason reason = ExitReason::kErrored;
};

struct SimulationOptions {
  SimulatedMetric metric = nullptr;
  SimulationOrder order = SimulationOrder::kRoundRobin;
  std::vector<SimulatedExit> exits;
  double seconds_per_unit = 0;  // training time of a unit of length
};

/// Course of one trial of a simulated search.
struct SimulatedTrial {
  Create created;
  std::vector<std::int64_t> lengths;  // of its validations, in order
  std::optional<ExitReason> exit;     // nothing if it was closed

  std::int64_t final_length() const {
    return lengths.empty() ? 0 : lengths.back();
  }
};

/// Result of a simulated search.
struct Simulation {
  std::vector<SimulatedTrial> trials;  // in order of creation
  bool failed = false;                 // of Shutdown
};

/// Called with every event and its operations.
using SimulationListener =
    std::function<void(const Event&, const std::vector<Operation>&)>;

/// Runs a search to its end without training, in O(log n) per event.
Simulation Simulate(Searcher& searcher, const SimulationOptions& options,
                    const SimulationListener& listener = {});

/// Range of a number over several simulated searches.
struct ExpectedRange {
  std::int64_t min = 0;
  std::int64_t max = 0;

  friend bool operator==(const ExpectedRange&, const ExpectedRange&) = default;
};

/// Expected course of a search; its plan is the ideal one.
struct ExpectedSearch {
  std::int64_t simulations = 0;                  // 0: the plan is exact
  std::map<std::int64_t, ExpectedRange> trials;  // by final length
  ExpectedRange total_length;
};

/// Simulates successive halving up to 40 times with random metrics, or 4 times
/// with a model, and counts the trials that end at each length. Trials run in
/// turns or one after another, and their metrics are correlated between rungs
/// or not. Points and constraints are left out. Deterministic. For other
/// methods the plan is exact. Returns nothing
/// for what would take too long: more than 2,500 trials, or with a model, which
/// takes up to a second, some 100; and for a budget of time.
std::optional<ExpectedSearch> ExpectSearch(
    const SearcherConfig& config, const nlohmann::json& hyperparameters);

}  // namespace dtrain

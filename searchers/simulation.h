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
#include "searchers/searcher_config.h"

namespace dtrain {

/// A made-up metric of a trial at a length.
using SimulatedMetric =
    std::function<double(TrialIndex trial, std::int64_t length)>;

/// The metric of a name (constant, trial_index, neg_trial_index, hash,
/// hash_step), or nullptr.
SimulatedMetric FindSimulatedMetric(std::string_view name);
/// All those names, for messages.
std::vector<std::string> SimulatedMetricNames();

/// Which trial's next operation is carried out.
enum class SimulationOrder {
  kRoundRobin,  // each trial's, in turns over those there are at the start
  kSequential,  // always the first trial's, in creation order, that has one
};

/// Makes a trial exit early when it is next asked to train after it was
/// validated `after` times.
struct SimulatedExit {
  TrialIndex trial = 0;
  std::int64_t after = 0;
  ExitReason reason = ExitReason::kErrored;
};

struct SimulationOptions {
  SimulatedMetric metric = nullptr;
  SimulationOrder order = SimulationOrder::kRoundRobin;
  std::vector<SimulatedExit> exits;
};

/// What a search did with one trial.
struct SimulatedTrial {
  Create created;
  std::vector<std::int64_t> lengths;  // validated at, in order
  std::optional<ExitReason> exit;     // none: it was closed

  std::int64_t final_length() const {
    return lengths.empty() ? 0 : lengths.back();
  }
};

/// A search played to its end.
struct Simulation {
  std::vector<SimulatedTrial> trials;  // in order of creation
  bool failed = false;                 // as Shutdown says
};

/// Told every event with the operations it gave.
using SimulationListener =
    std::function<void(const Event&, const std::vector<Operation>&)>;

/// Plays a search without training. Takes O(log n) per event.
Simulation Simulate(Searcher& searcher, const SimulationOptions& options,
                    const SimulationListener& listener = {});

/// A range of what simulated searches came to.
struct ExpectedRange {
  std::int64_t min = 0;
  std::int64_t max = 0;

  friend bool operator==(const ExpectedRange&, const ExpectedRange&) = default;
};

/// What a search is expected to do, where its plan is the ideal.
struct ExpectedSearch {
  std::int64_t simulations = 0;                  // 0: the plan is exact
  std::map<std::int64_t, ExpectedRange> trials;  // by final length
  ExpectedRange total_length;
};

/// Plays a search by halving some 40 times with random metrics and counts the
/// trials that end at each length. Trials run in turns or one after another,
/// and their metrics agree between rungs or do not. Deterministic. Other
/// methods do what their plan says. None for a search of more than 2,500
/// trials, which would take too long.
std::optional<ExpectedSearch> ExpectSearch(
    const SearcherConfig& config, const nlohmann::json& hyperparameters);

}  // namespace dtrain

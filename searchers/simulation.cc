// A simulated search replaces training by a function: an operation is completed
// at once with the metric of the trial and the length. Only the order of the
// operations remains to be chosen; it matters for asynchronous halving, which
// decides with the results so far.
//
// Player is the counterpart of the Experiment: it sends an event to the
// searcher and applies the operations that it returns, which may send further
// events from within Apply. `busy_` has the trials that can do something, so
// that a step costs O(log n) however many trials wait at rungs.
//
// ExpectSearch repeats this with random metrics. The number of a simulation
// decides its order and kind of metric by its two lowest bits, so four in a row
// have every combination.

#include "searchers/simulation.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "engine/base/rng.h"
#include "searchers/registry.h"
#include "searchers/search_plan.h"

namespace dtrain {
namespace {

double Constant(TrialIndex, std::int64_t) { return 1; }
double ByIndex(TrialIndex trial, std::int64_t) {
  return static_cast<double>(trial);
}
double ByNegatedIndex(TrialIndex trial, std::int64_t) {
  return -static_cast<double>(trial);
}
// Metrics without a visible order, but the same on every machine. The factors
// are primes.
double Hash(TrialIndex trial, std::int64_t) {
  return static_cast<double>((trial * 7919 + 104729) % 1009) / 1009;
}
double HashStep(TrialIndex trial, std::int64_t length) {
  return static_cast<double>((trial * 7919 + length * 31 + 104729) % 1009) /
         1009;
}

struct NamedMetric {
  std::string_view name;
  double (*metric)(TrialIndex trial, std::int64_t length);
};

constexpr std::array kMetrics = {
    NamedMetric{"constant", Constant},
    NamedMetric{"trial_index", ByIndex},
    NamedMetric{"neg_trial_index", ByNegatedIndex},
    NamedMetric{"hash", Hash},
    NamedMetric{"hash_step", HashStep},
};

// Runs one search: keeps the pending operations of each trial and executes
// them.
class Player {
 public:
  Player(Searcher& searcher, const SimulationOptions& options,
         const SimulationListener& listener)
      : searcher_(searcher), options_(options), listener_(listener) {}

  Simulation Play() {
    Send(Started{});
    // A round has all trials that may run at the same time.
    constexpr auto kAll = std::numeric_limits<std::int64_t>::max();
    if (searcher_.CreatesAhead() < kAll) Send(PlacesAdded{kAll});
    while (!busy_.empty()) {
      if (options_.order == SimulationOrder::kSequential) {
        Step(*busy_.begin());
      } else {
        PlayRound();
      }
    }
    return std::move(simulation_);
  }

 private:
  // Pending operations of a trial: train to each length, then close.
  struct Pending {
    std::vector<std::int64_t> lengths;
    bool close = false;
  };

  // Executes one operation of each trial that exists now; a trial may get one
  // during the round.
  void PlayRound() {
    const auto trials = static_cast<TrialIndex>(simulation_.trials.size());
    for (auto next = busy_.begin(); next != busy_.end() && *next < trials;) {
      const TrialIndex trial = *next;
      Step(trial);
      next = busy_.upper_bound(trial);
    }
  }

  void Step(TrialIndex trial) {
    SimulatedTrial& record = Record(trial);
    Pending& pending = pending_[static_cast<std::size_t>(trial)];
    // Close is the last operation, so only an empty list ends the trial.
    if (pending.lengths.empty()) {
      busy_.erase(trial);
      return Send(Closed{trial});
    }
    if (const auto exit = FindExit(trial)) {
      pending = {};
      busy_.erase(trial);
      record.exit = exit;
      return Send(ExitedEarly{trial, *exit});
    }
    const std::int64_t length = pending.lengths.front();
    pending.lengths.erase(pending.lengths.begin());
    if (pending.lengths.empty() && !pending.close) busy_.erase(trial);
    const auto more = static_cast<double>(length - record.final_length());
    record.lengths.push_back(length);
    Send(ValidationCompleted{trial, length, options_.metric(trial, length),
                             more * options_.seconds_per_unit});
  }

  std::optional<ExitReason> FindExit(TrialIndex trial) {
    const auto validations =
        static_cast<std::int64_t>(Record(trial).lengths.size());
    for (const SimulatedExit& exit : options_.exits) {
      if (exit.trial == trial && exit.after <= validations) return exit.reason;
    }
    return std::nullopt;
  }

  void Send(const Event& event) {
    const std::vector<Operation> operations = searcher_.Handle(event);
    if (listener_) listener_(event, operations);
    for (const Operation& operation : operations) Apply(operation);
  }

  void Apply(const Operation& operation) {
    if (const auto* create = std::get_if<Create>(&operation)) {
      simulation_.trials.push_back({.created = *create});
      pending_.emplace_back();
      Send(Created{create->trial});
    } else if (const auto* more = std::get_if<ValidateAfter>(&operation)) {
      pending_[static_cast<std::size_t>(more->trial)].lengths.push_back(
          more->length);
      busy_.insert(more->trial);
    } else if (const auto* close = std::get_if<Close>(&operation)) {
      pending_[static_cast<std::size_t>(close->trial)].close = true;
      busy_.insert(close->trial);
    } else if (const auto* end = std::get_if<Shutdown>(&operation)) {
      simulation_.failed = end->failed;
    }
  }

  SimulatedTrial& Record(TrialIndex trial) {
    return simulation_.trials[static_cast<std::size_t>(trial)];
  }

  Searcher& searcher_;
  const SimulationOptions& options_;
  const SimulationListener& listener_;
  Simulation simulation_;
  std::vector<Pending> pending_;  // by trial
  std::set<TrialIndex> busy_;     // trials with operations
};

constexpr std::int64_t kMaxSimulations = 40;
constexpr std::int64_t kMinSimulations = 4;
// In all simulations of a search.
constexpr std::int64_t kMaxSimulatedTrials = 10'000;
// Of a model, in each simulation.
constexpr std::int64_t kMaxModelDecisions = 500;

// Returns random metrics: one for each trial if `agree`, otherwise one for each
// validation.
SimulatedMetric RandomMetric(Rng& rng, bool agree) {
  if (!agree) return [&rng](TrialIndex, std::int64_t) { return rng.Uniform(); };
  return [&rng, values = std::map<TrialIndex, double>()](TrialIndex trial,
                                                         std::int64_t) mutable {
    const auto known = values.find(trial);
    if (known != values.end()) return known->second;
    return values[trial] = rng.Uniform();
  };
}

void Include(std::int64_t value, bool first, ExpectedRange& range) {
  range.min = first ? value : std::min(range.min, value);
  range.max = first ? value : std::max(range.max, value);
}

// Runs one simulation. REQUIRES: `expected` has the lengths of the plan.
void IncludeSimulation(const SearcherConfig& config,
                       const nlohmann::json& hyperparameters,
                       std::uint32_t number, ExpectedSearch& expected) {
  const auto searcher = MakeSearcher(config, hyperparameters, /*seed=*/number);
  Rng rng(number);
  const bool one_by_one = number % 2 == 1;
  const Simulation simulation = Simulate(
      *searcher, {.metric = RandomMetric(rng, /*agree=*/number / 2 % 2 == 1),
                  .order = one_by_one ? SimulationOrder::kSequential
                                      : SimulationOrder::kRoundRobin});
  std::map<std::int64_t, std::int64_t> trials;
  std::int64_t total = 0;
  for (const SimulatedTrial& trial : simulation.trials) {
    ++trials[trial.final_length()];
    total = MultiplyAdd(1, trial.final_length(), total);
  }
  for (auto& [length, range] : expected.trials) {
    Include(trials[length], number == 0, range);
  }
  Include(total, number == 0, expected.total_length);
}

// Returns how often to simulate a search with rungs; 0: it would take too long.
std::int64_t CountSimulations(const SearcherConfig& config,
                              const SearchPlan& plan) {
  if (!IsModelBased(config)) {
    const std::int64_t simulations =
        kMaxSimulatedTrials / std::max<std::int64_t>(config.max_trials, 1);
    return simulations < kMinSimulations
               ? 0
               : std::min(simulations, kMaxSimulations);
  }
  // Each trains for the length of the lowest rung or more, and a trial once to
  // each rung.
  const std::vector<std::int64_t>& rungs = plan.brackets.front().rungs;
  const std::int64_t decisions =
      std::min(plan.total_length / rungs.front(),
               MultiplyAdd(config.max_trials, std::ssize(rungs), 0));
  return plan.max_seconds > 0 || decisions > kMaxModelDecisions
             ? 0
             : kMinSimulations;
}

}  // namespace

SimulatedMetric FindSimulatedMetric(std::string_view name) {
  for (const NamedMetric& entry : kMetrics) {
    if (entry.name == name) return entry.metric;
  }
  return nullptr;
}

std::vector<std::string> SimulatedMetricNames() {
  std::vector<std::string> names;
  for (const NamedMetric& entry : kMetrics) names.emplace_back(entry.name);
  return names;
}

Simulation Simulate(Searcher& searcher, const SimulationOptions& options,
                    const SimulationListener& listener) {
  return Player(searcher, options, listener).Play();
}

std::optional<ExpectedSearch> ExpectSearch(
    const SearcherConfig& config, const nlohmann::json& hyperparameters) {
  const SearchPlan plan = PlanSearch(config, hyperparameters);
  ExpectedSearch expected;
  for (const PlanRow& row : plan.rows) {
    expected.trials[row.length] = {row.trials, row.trials};
  }
  expected.total_length = {plan.total_length, plan.total_length};
  if (plan.brackets.empty()) return expected;
  expected.simulations = CountSimulations(config, plan);
  if (expected.simulations == 0) return std::nullopt;
  // Halving does not look at the hyperparameters, and is faster without.
  const bool by_model = IsModelBased(config);
  if (by_model) {
    for (const std::int64_t length : plan.brackets.front().rungs) {
      expected.trials[length] = {};
    }
  }
  SearcherConfig played = config;
  played.points.clear();
  played.constraints.clear();
  for (std::uint32_t i = 0; i < expected.simulations; ++i) {
    IncludeSimulation(played,
                      by_model ? hyperparameters : nlohmann::json::object(), i,
                      expected);
  }
  return expected;
}

}  // namespace dtrain

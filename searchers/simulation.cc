#include "searchers/simulation.h"

#include <array>
#include <set>
#include <utility>

namespace dtrain {
namespace {

double Constant(TrialIndex, std::int64_t) { return 1; }
double ByIndex(TrialIndex trial, std::int64_t) {
  return static_cast<double>(trial);
}
double ByNegatedIndex(TrialIndex trial, std::int64_t) {
  return -static_cast<double>(trial);
}
double Hash(TrialIndex trial, std::int64_t) {
  return static_cast<double>((trial * 7919 + 104729) % 1009) / 1009;
}
double HashStep(TrialIndex trial, std::int64_t length) {
  return static_cast<double>((trial * 7919 + length * 31 + 104729) % 1009) /
         1009;
}

struct NamedMetric {
  std::string_view name;
  SimulatedMetric metric;
};

constexpr std::array kMetrics = {
    NamedMetric{"constant", Constant},
    NamedMetric{"trial_index", ByIndex},
    NamedMetric{"neg_trial_index", ByNegatedIndex},
    NamedMetric{"hash", Hash},
    NamedMetric{"hash_step", HashStep},
};

// Plays one search: keeps what each trial has to do, and does it in order.
class Player {
 public:
  Player(Searcher& searcher, const SimulationOptions& options,
         const SimulationListener& listener)
      : searcher_(searcher), options_(options), listener_(listener) {}

  Simulation Play() {
    Tell(Started{});
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
  // What a trial has to do yet: train to each length, then close.
  struct Pending {
    std::vector<std::int64_t> lengths;
    bool close = false;
  };

  // Every trial that there is now, one operation each; a trial may get one in
  // the course of the round.
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
    if (pending.lengths.empty()) {
      busy_.erase(trial);
      return Tell(Closed{trial});
    }
    if (const auto exit = ExitOf(trial)) {
      pending = {};
      busy_.erase(trial);
      record.exit = exit;
      return Tell(ExitedEarly{trial, *exit});
    }
    const std::int64_t length = pending.lengths.front();
    pending.lengths.erase(pending.lengths.begin());
    if (pending.lengths.empty() && !pending.close) busy_.erase(trial);
    record.lengths.push_back(length);
    Tell(ValidationCompleted{trial, length, options_.metric(trial, length)});
  }

  std::optional<ExitReason> ExitOf(TrialIndex trial) {
    const auto validations =
        static_cast<std::int64_t>(Record(trial).lengths.size());
    for (const SimulatedExit& exit : options_.exits) {
      if (exit.trial == trial && exit.after <= validations) return exit.reason;
    }
    return std::nullopt;
  }

  void Tell(const Event& event) {
    const std::vector<Operation> operations = searcher_.Handle(event);
    if (listener_) listener_(event, operations);
    for (const Operation& operation : operations) Take(operation);
  }

  void Take(const Operation& operation) {
    if (const auto* create = std::get_if<Create>(&operation)) {
      simulation_.trials.push_back({.created = *create});
      pending_.emplace_back();
      Tell(Created{create->trial});
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
  std::set<TrialIndex> busy_;     // those that have operations
};

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

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/run/experiment_fixture.h"

namespace dtrain {

/// An Experiment with a search of several trials, whose losses differ.
class ExperimentSearchTest : public ExperimentTest {
 protected:
  ExperimentSearchTest() {
    config_.hyperparameters = {
        {"x", {{"type", "int"}, {"minval", 1}, {"maxval", 4}, {"count", 4}}}};
    config_.hang_timeout = 1e9;
    trials_.loss = ScriptedTrials::Hash;
  }

  void Grid(std::int64_t concurrent = 16) {
    config_.searcher = {.name = "grid",
                        .metric = "loss",
                        .max_length = 100,
                        .max_concurrent_trials = concurrent};
  }
  // Rungs at 50 and 100, of which one in two is promoted.
  void Asha(std::int64_t trials, std::int64_t concurrent,
            bool stop_once = false) {
    config_.searcher = {.name = "async_halving",
                        .metric = "loss",
                        .max_length = 100,
                        .max_trials = trials,
                        .max_concurrent_trials = concurrent,
                        .num_rungs = 2,
                        .divisor = 2,
                        .stop_once = stop_once};
  }
  // Constant loss of each trial, from the first on.
  void Losses(std::vector<double> losses) {
    trials_.loss = [losses](std::int64_t trial, std::int64_t) {
      return losses.at(static_cast<std::size_t>(trial - 1));
    };
  }
  void Slots(std::size_t slots) { launcher_.set_slots(slots); }

  // The trials whose processes were started, in order.
  std::vector<std::int64_t> Started() const {
    std::vector<std::int64_t> numbers;
    for (const TrialSpec& spec : launcher_.started()) {
      numbers.push_back(spec.id.number);
    }
    return numbers;
  }
  // "STATE: reason" of every trial.
  std::vector<std::string> Ends() const {
    std::vector<std::string> ends;
    for (const TrialRow& row : store_.Trials(id_)) {
      ends.push_back(std::string(StateName(row.state)) + ": " + row.reason);
    }
    return ends;
  }
};

}  // namespace dtrain

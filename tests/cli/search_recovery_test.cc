// Searches whose runner is killed, again and again, and resumed.

#include <array>
#include <ostream>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/fault_yaml.h"

namespace dtrain {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

struct Killed {
  const char* name;
  std::string searcher;
  const char* slots = "cpu:1";
  std::uint32_t seed = 1;
};

void PrintTo(const Killed& killed, std::ostream* out) { *out << killed.name; }

class SearchRecoveryTest : public testing::TestWithParam<Killed> {
 protected:
  std::string Yaml() const {
    return SearchYaml(GetParam().searcher, GetParam().slots);
  }

  // What a search came to, without what a kill may change: times, processes.
  static json Outcome(const CliRunner& dtrain) {
    json trials = dtrain.Run({"trials", "1", "--json"}).Json().at("trials");
    json outcome = json::array();
    for (const json& trial : trials) {
      outcome.push_back({{"trial", trial.at("trial")},
                         {"hparams", trial.at("hparams")},
                         {"state", trial.at("state")},
                         {"reason", trial.at("reason")},
                         {"batches", trial.at("batches")},
                         {"rung", trial.at("rung")},
                         {"best", Value(trial.at("best"))},
                         {"latest", Value(trial.at("latest"))}});
    }
    const json best = dtrain.Run({"best", "1", "--json"}).Json();
    return {{"trials", outcome}, {"best", best.at("best").at(0).at("trial")}};
  }

  static json Value(const json& metric) {
    return metric.is_object() ? metric.at("value") : metric;
  }

  // Runs the search to its end, killing its runner several times before: by
  // turns when it says something and at any time. Gives how often.
  int RunWithKills(const CliRunner& dtrain) const {
    static constexpr std::array kMoments = {"started", "paused", "goes on",
                                            "completed", "stopped"};
    std::mt19937 dice(GetParam().seed);
    std::vector<std::string> command = {"create", "search.yaml"};
    for (int kills = 0; kills < 8; ++kills) {
      CliCall call{.signal = SIGKILL};
      if (kills % 2 == 0) call.signal_when = kMoments[dice() % kMoments.size()];
      call.signal_after = milliseconds(250 + dice() % 900);
      const CliResult result = dtrain.Run(command, call);
      if (result.code == 0) return kills;
      EXPECT_EQ(result.code, 137) << result.err;
      // Killed before it had recorded the experiment, it is created anew.
      const json listed = dtrain.Run({"list", "--json"}).Json();
      if (!listed.at("experiments").empty()) command = {"resume", "1"};
    }
    const CliResult last = dtrain.Run(command);
    EXPECT_EQ(last.code, 0) << last.err;
    return 8;
  }
};

TEST_P(SearchRecoveryTest, ComesToTheSameEnd) {
  const CliRunner whole;
  const CliRunner killed;
  whole.Write("search.yaml", Yaml());
  killed.Write("search.yaml", Yaml());
  ASSERT_EQ(whole.Run({"create", "search.yaml"}).code, 0);

  const int kills = RunWithKills(killed);

  EXPECT_GT(kills, 0);
  EXPECT_EQ(Outcome(killed), Outcome(whole));
}

const char* const kAsha =
    "name: asha, max_trials: 14, num_rungs: 3, divisor: 2, max_length: 48, "
    "max_concurrent_trials: 4";

INSTANTIATE_TEST_SUITE_P(
    All, SearchRecoveryTest,
    testing::Values(
        Killed{"Grid", "name: grid, max_length: 32"},
        Killed{"GridOnTwoSlots", "name: grid, max_length: 48", "cpu:2", 2},
        Killed{"Random", "name: random, max_trials: 8, max_length: 32"},
        Killed{"RandomOnTwoSlots",
               "name: random, max_trials: 12, max_length: 32", "cpu:2", 3},
        Killed{"Promotion", kAsha}, Killed{"PromotionAgain", kAsha, "cpu:1", 4},
        Killed{"Stopping", std::string(kAsha) + ", stop_once: true"},
        Killed{"Adaptive",
               "name: adaptive_asha, max_trials: 12, divisor: 2, max_rungs: 3, "
               "max_length: 32, max_concurrent_trials: 3"}),
    [](const auto& info) { return info.param.name; });

using ParallelRecoveryTest = SearchRecoveryTest;

// With several slots the order of the results depends on the moment. The
// recorded events give the recorded operations (the runner compares them when
// it resumes), and the search ends with all its trials.
TEST_P(ParallelRecoveryTest, GoesOnWithAllItsTrials) {
  const CliRunner killed;
  killed.Write("search.yaml", Yaml());

  const int kills = RunWithKills(killed);

  EXPECT_GT(kills, 0);
  const json trials = Outcome(killed).at("trials");
  EXPECT_EQ(trials.size(), 14u);
  for (const json& trial : trials) {
    EXPECT_TRUE(trial.at("state") == "COMPLETED" ||
                trial.at("state") == "STOPPED")
        << trial;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ParallelRecoveryTest,
    testing::Values(Killed{"Promotion", kAsha, "cpu:3", 5},
                    Killed{"Stopping", std::string(kAsha) + ", stop_once: true",
                           "cpu:2", 6}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dtrain

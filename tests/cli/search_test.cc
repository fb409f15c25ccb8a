// Searches on real trials.
//
// Searches whose runner is killed, again and again, and resumed.

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/fault_yaml.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string Bytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class SearchTest : public testing::Test {
 protected:
  CliResult Create(const std::string& yaml) const {
    dtrain_.Write("search.yaml", yaml);
    return dtrain_.Run({"create", "search.yaml", "--jsonl"});
  }

  json Trials(const std::string& experiment = "1") const {
    return dtrain_.Run({"trials", experiment, "--json"}).Json().at("trials");
  }

  // The events of `create --jsonl`.
  static std::vector<json> Events(const CliResult& result) {
    std::vector<json> events;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      events.push_back(json::parse(line));
    }
    return events;
  }

  // The most trials that had a process at one time.
  static std::size_t MostAtOnce(const CliResult& result) {
    std::set<std::string> running;
    std::size_t most = 0;
    for (const json& event : Events(result)) {
      const std::string kind = event.value("event", "");
      if (kind == "trial_started") running.insert(event.at("trial"));
      if (kind == "trial_ended") running.erase(event.at("trial"));
      most = std::max(most, running.size());
    }
    return most;
  }

  std::filesystem::path LatestCheckpoint(const std::string& experiment) const {
    const json rows = dtrain_.Run({"checkpoints", experiment + ".1", "--json"})
                          .Json()
                          .at("checkpoints");
    json latest = rows.at(0);
    for (const json& row : rows) {
      if (row.at("batches") > latest.at("batches")) latest = row;
    }
    EXPECT_EQ(latest.at("batches"), 48);
    return dtrain_.store() / "experiments" / experiment / "trials/1" /
           "checkpoints" / latest.at("uuid").get<std::string>();
  }

  CliRunner dtrain_;
};

// Its first trial is the best: by promotion it is paused at each rung and goes
// on later, by stopping it trains through. Seed, slots and threads are equal.
std::string LeNetYaml(const std::string& stop_once) {
  return "name: lenet\n"
         "entrypoint: digits:LeNetTrial\n"
         "hyperparameters:\n"
         "  dataset: strokes\n"
         "  training_samples: 640\n"
         "  global_batch_size: 32\n"
         "  optimizer: adam\n"
         "  lr: {type: log, minval: -6, maxval: -2}\n"
         "searcher:\n"
         "  {name: asha, metric: val_loss, max_trials: 4, num_rungs: 3,\n"
         "   divisor: 2, max_length: 48, max_concurrent_trials: 1,\n"
         "   points: [{lr: 1e-3}, {lr: 1e-6}, {lr: 1e-6}, {lr: 1e-6}],\n"
         "   stop_once: " +
         stop_once +
         "}\n"
         "reproducibility: {experiment_seed: 3}\n"
         "resources: {slots: cpu:1}\n";
}

TEST_F(SearchTest, PausedTrialEndsBitIdentical) {
  ASSERT_EQ(Create(LeNetYaml("false")).code, 0);
  ASSERT_EQ(Create(LeNetYaml("true")).code, 0);
  const json paused = Trials("1").at(0);
  const json straight = Trials("2").at(0);
  ASSERT_GT(paused.at("runs"), 1);
  ASSERT_EQ(straight.at("runs"), 1);
  const auto first = LatestCheckpoint("1");
  const auto second = LatestCheckpoint("2");

  EXPECT_EQ(paused.at("latest").at("value"), straight.at("latest").at("value"));
  EXPECT_FALSE(Bytes(first / "model.safetensors").empty());
  EXPECT_EQ(Bytes(first / "model.safetensors"),
            Bytes(second / "model.safetensors"));
  EXPECT_EQ(Bytes(first / "optimizer.safetensors"),
            Bytes(second / "optimizer.safetensors"));
}

TEST_F(SearchTest, PausedTrialFreesItsSlot) {
  const CliResult result =
      Create(SearchYaml("name: asha, max_trials: 9, num_rungs: 3, divisor: 3, "
                        "max_length: 18, max_concurrent_trials: 3"));
  ASSERT_EQ(result.code, 0) << result.err;

  std::map<std::int64_t, int> by_rung;
  bool promoted_after_pause = false;
  for (const json& trial : Trials()) {
    ++by_rung[trial.at("rung").get<std::int64_t>()];
    promoted_after_pause |= trial.at("rung") > 1 && trial.at("runs") > 1;
  }

  EXPECT_EQ(MostAtOnce(result), 1u);
  EXPECT_TRUE(promoted_after_pause);
  EXPECT_GE(by_rung[3], 1);
  EXPECT_EQ(by_rung[1] + by_rung[2] + by_rung[3], 9);
}

TEST_F(SearchTest, StoppingEndsATrialAtItsRung) {
  const CliResult result =
      Create(SearchYaml("name: asha, max_trials: 9, num_rungs: 2, divisor: 3, "
                        "max_length: 18, stop_once: true"));
  ASSERT_EQ(result.code, 0) << result.err;

  for (const json& trial : Trials()) {
    const bool whole = trial.at("state") == "COMPLETED";
    EXPECT_EQ(trial.at("batches"), whole ? 18 : 6) << trial;
    EXPECT_EQ(trial.at("runs"), 1) << trial;
    EXPECT_EQ(trial.at("reason").is_null(), whole) << trial;
  }
}

TEST_F(SearchTest, KeepsToItsSlotsAndConcurrency) {
  const std::string random = "name: random, max_trials: 6, max_length: 20";
  const CliResult slots = Create(SearchYaml(random, "cpu:2"));
  const CliResult concurrent =
      Create(SearchYaml(random + ", max_concurrent_trials: 1", "cpu:2"));
  std::string bounded = SearchYaml(random, "cpu:3");
  bounded.insert(bounded.rfind('}'), ", max_slots: 1");
  const CliResult max_slots = Create(bounded);

  std::string pairs = SearchYaml(random, "cpu:4");
  pairs.insert(pairs.rfind('}'), ", slots_per_trial: 2");
  const CliResult two_each = Create(pairs);

  EXPECT_EQ(MostAtOnce(two_each), 2u) << two_each.err;
  EXPECT_EQ(MostAtOnce(slots), 2u);
  EXPECT_EQ(MostAtOnce(concurrent), 1u);
  EXPECT_EQ(MostAtOnce(max_slots), 1u) << max_slots.err;
}

TEST_F(SearchTest, FailsIfNoTrialReportsTheMetric) {
  dtrain_.Write("search.yaml",
                SearchYaml("name: random, max_trials: 2, max_length: 20"));

  const CliResult result =
      dtrain_.Run({"create", "search.yaml", "--set", "searcher.metric=f1",
                   "--set", "max_restarts=5"});

  EXPECT_EQ(result.code, 1);
  // The first validation ends the search.
  for (const json& trial : Trials()) {
    EXPECT_THAT(trial.at("state"), testing::AnyOf("ERROR", "CANCELED"));
    EXPECT_EQ(trial.at("restarts"), 0);
    EXPECT_THAT(trial.at("reason").get<std::string>(),
                HasSubstr("'f1' was not reported; reported: acc, loss"));
  }
}

TEST_F(SearchTest, TriesThePointsFirst) {
  ASSERT_EQ(Create(SearchYaml("name: random, max_trials: 3, max_length: 4, "
                              "points: [{x: 0.3}, {x: 1}]"))
                .code,
            0);

  const json trials = Trials();

  EXPECT_EQ(trials.at(0).at("hparams").at("x"), 0.3);
  EXPECT_EQ(trials.at(1).at("hparams").at("x"), 1.0);
  EXPECT_NE(trials.at(2).at("hparams").at("x"), 1.0);
}

TEST_F(SearchTest, FailsIfEveryTrialReportsNan) {
  dtrain_.Write("search.yaml",
                SearchYaml("name: asha, max_trials: 4, num_rungs: 2, "
                           "divisor: 2, max_length: 8"));

  const CliResult result = dtrain_.Run(
      {"create", "search.yaml", "--set", "hyperparameters.nan_at=4"});

  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_EQ(Trials().size(), 4u);
  for (const json& trial : Trials()) {
    EXPECT_THAT(trial.at("reason").get<std::string>(), HasSubstr("NaN"));
  }
}

TEST_F(SearchTest, DescribesTheBudgetOfAModel) {
  dtrain_.Write("search.yaml", SearchYaml("name: bayesian, max_trials: 4, "
                                          "max_length: 8, budget: 20"));
  ASSERT_EQ(dtrain_.Run({"create", "search.yaml"}).code, 0);

  const CliResult planned = dtrain_.Run({"create", "search.yaml", "--dry-run"});
  const CliResult described = dtrain_.Run({"describe", "1"});

  EXPECT_THAT(planned.out,
              HasSubstr("up to 4 trials of 8 batches (budget of 20 batches in "
                        "all trials) on "));
  EXPECT_THAT(described.out,
              HasSubstr("budget of 20 batches in all trials, at most 4\n"));
}

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

  // Result of a search, without times and processes, which a kill may change.
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
  // turns when it prints something and at any time. Returns how often.
  int RunWithKills(const CliRunner& dtrain) const {
    static constexpr std::array kMoments = {"started", "paused", "promoted",
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
      // If killed before it had recorded the experiment, create it again.
      const json listed = dtrain.Run({"list", "--json"}).Json();
      if (!listed.at("experiments").empty()) command = {"resume", "1"};
    }
    const CliResult last = dtrain.Run(command);
    EXPECT_EQ(last.code, 0) << last.err;
    return 8;
  }
};

TEST_P(SearchRecoveryTest, GivesTheSameResult) {
  const CliRunner whole;
  const CliRunner killed;
  whole.Write("search.yaml", Yaml());
  killed.Write("search.yaml", Yaml());
  ASSERT_EQ(whole.Run({"create", "search.yaml"}).code, 0);

  const int kills = RunWithKills(killed);

  EXPECT_GT(kills, 0);
  EXPECT_EQ(Outcome(killed), Outcome(whole));
}

// Enough trials for the model to decide about some of them.
const char* const kModelSearch =
    "name: bayesian, max_trials: 40, num_rungs: 3, divisor: 2, max_length: 16, "
    "max_concurrent_trials: 4, budget: 240";

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
        Killed{"Model", std::string(kModelSearch) + ", cost: length"},
        Killed{"Adaptive",
               "name: adaptive_asha, max_trials: 12, divisor: 2, max_rungs: 3, "
               "max_length: 32, max_concurrent_trials: 3"}),
    [](const auto& info) { return info.param.name; });

using ParallelRecoveryTest = SearchRecoveryTest;

// With several slots the order of the results depends on the moment. The
// recorded events give the recorded operations (the runner compares them when
// it resumes), and the search ends with all its trials.
TEST_P(ParallelRecoveryTest, ResumesAllTrials) {
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

using ModelRecoveryTest = SearchRecoveryTest;

// Training times enter the decisions, so no two runs are equal. The recorded
// times give the recorded operations.
TEST_P(ModelRecoveryTest, ReplaysTheRecordedTimes) {
  const CliRunner killed;
  killed.Write("search.yaml", Yaml());

  const int kills = RunWithKills(killed);

  EXPECT_GT(kills, 0);
  const json doctor = json::parse(killed.Run({"doctor", "--json"}).out);
  const json replayed = {{"check", "search"},
                         {"status", "ok"},
                         {"text", "recorded searches replay identically"}};
  EXPECT_EQ(std::ranges::count(doctor.at("checks"), replayed), 1) << doctor;
  const json trials = Outcome(killed).at("trials");
  EXPECT_GE(trials.size(), 8u);
  EXPECT_LE(trials.size(), 40u);
  for (const json& trial : trials) {
    EXPECT_TRUE(trial.at("state") == "COMPLETED" ||
                trial.at("state") == "STOPPED")
        << trial;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ModelRecoveryTest,
                         testing::Values(Killed{"Time", kModelSearch, "cpu:2",
                                                7}),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    All, ParallelRecoveryTest,
    testing::Values(Killed{"Promotion", kAsha, "cpu:3", 5},
                    Killed{"Stopping", std::string(kAsha) + ", stop_once: true",
                           "cpu:2", 6}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dtrain

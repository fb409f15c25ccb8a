// One model on several ranks: processes with a CPU slot each.

#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class RanksTest : public testing::Test {
 protected:
  // LeNet on drawn digits, 20 batches of 60 on `ranks` ranks.
  CliResult Create(int ranks, const std::string& more = "",
                   const CliCall& call = {}) const {
    dtrain_.Write("ranks.yaml",
                  "entrypoint: digits:LeNetTrial\n"
                  "hyperparameters: {global_batch_size: 60, lr: 0.1}\n"
                  "searcher: {name: single, metric: val_loss, max_length: "
                  "{batches: 20}}\n"
                  "reproducibility: {experiment_seed: 3}\n" +
                      more);
    const std::string count = std::to_string(ranks);
    return dtrain_.Run(
        {"create", "ranks.yaml", "--set", "resources.slots=cpu:" + count,
         "--set", "resources.slots_per_trial=" + count},
        call);
  }

  std::string BestCheckpoint(const std::string& experiment) const {
    const json best = dtrain_.Run({"best", experiment, "--json"}).Json();
    return best.at("best").at(0).at("checkpoint").get<std::string>();
  }

  static void ExpectNear(const TrialMetrics& left, const TrialMetrics& right,
                         double tolerance) {
    ASSERT_EQ(left.size(), right.size());
    for (const auto& [key, value] : left) {
      ASSERT_TRUE(right.contains(key)) << std::get<2>(key);
      EXPECT_NEAR(value, right.at(key), tolerance)
          << std::get<2>(key) << " at " << std::get<1>(key);
    }
  }

  CliRunner dtrain_;
};

TEST_F(RanksTest, AnyNumberOfRanksTrainsIdentically) {
  const std::string every = "scheduling_unit: 1\n";
  for (const int ranks : {1, 2, 3}) {
    const CliResult result = Create(ranks, every);
    ASSERT_EQ(result.code, 0) << result.err;
  }
  const TrialMetrics alone = ReadMetrics(dtrain_, "1.1");
  EXPECT_EQ(alone.count({"training", 20, "loss"}), 1);
  ExpectNear(alone, ReadMetrics(dtrain_, "2.1"), 1e-5);
  ExpectNear(alone, ReadMetrics(dtrain_, "3.1"), 1e-5);
}

TEST_F(RanksTest, ResumeBitIdenticallyInMidAccumulation) {
  const std::string more =
      "scheduling_unit: 7\n"
      "optimizations: {aggregation_frequency: 3}\n"
      "min_validation_period: {batches: 8}\n";
  ASSERT_EQ(Create(2, more).code, 0);
  int number = 1;
  CliResult paused;
  do {  // It may end before it receives the signal.
    paused = Create(2, more, {.signal_when = "validation at batch 8"});
    ++number;
  } while (paused.code == 0 && number < 6);
  ASSERT_EQ(paused.code, 130) << paused.err;
  const std::string id = std::to_string(number);
  const CliResult resumed = dtrain_.Run({"resume", id});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  ExpectNear(ReadMetrics(dtrain_, "1.1"), ReadMetrics(dtrain_, id + ".1"), 0);
}

// The greatest loss is the best here, and that is the first.
TEST_F(RanksTest, SaveTheBestModelTogether) {
  const CliResult created =
      Create(2, "min_validation_period: 5\nperform_initial_validation: true\n");
  ASSERT_EQ(created.code, 0) << created.err;
  const CliResult greatest =
      dtrain_.Run({"create", "ranks.yaml", "--set", "resources.slots=cpu:2",
                   "--set", "resources.slots_per_trial=2", "--set",
                   "searcher.smaller_is_better=false"});
  ASSERT_EQ(greatest.code, 0) << greatest.err;
  const json best = dtrain_.Run({"best", "2", "--json"}).Json()["best"][0];
  EXPECT_EQ(best["checkpoint"], best["best_saved"]["checkpoint"]);
  const CliResult evaluated = dtrain_.Run({"evaluate", "2.1", "--json"});
  EXPECT_NEAR(evaluated.Json()["metrics"]["val_loss"], best["value"], 1e-5);
  const json saved =
      dtrain_.Run({"checkpoints", "2", "--json"}).Json()["checkpoints"];
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_EQ(saved[0]["batches"], best["batches"]);
  EXPECT_EQ(saved[1]["batches"], 20);
}

TEST_F(RanksTest, ProfileHasTheTimeThatRanksWait) {
  for (const int ranks : {1, 2}) {
    const CliResult result = Create(ranks, "profiling: {enabled: true}\n");
    ASSERT_EQ(result.code, 0) << result.err;
  }
  const auto waited = [&](const std::string& trial) -> double {
    const json told = dtrain_.Run({"describe", trial, "--json"}).Json();
    return told.at("profile").at("phases").at("exchange").at("seconds");
  };
  EXPECT_EQ(waited("1.1"), 0);
  EXPECT_GT(waited("2.1"), 0);
}

TEST_F(RanksTest, EvaluateAndPredictTogether) {
  ASSERT_EQ(Create(1).code, 0);
  const std::string checkpoint = BestCheckpoint("1");
  std::map<int, json> metrics;
  std::map<int, std::string> predictions;
  for (const int ranks : {1, 2, 3}) {
    const std::string slots = "cpu:" + std::to_string(ranks);
    const CliResult evaluated =
        dtrain_.Run({"evaluate", checkpoint, "--slots", slots, "--json"});
    ASSERT_EQ(evaluated.code, 0) << evaluated.err;
    metrics[ranks] = evaluated.Json().at("metrics");
    const CliResult predicted = dtrain_.Run(
        {"predict", checkpoint, "--slots", slots, "--limit", "2500"});
    ASSERT_EQ(predicted.code, 0) << predicted.err;
    predictions[ranks] = predicted.out;
  }
  for (const int ranks : {2, 3}) {
    for (const auto& [name, value] : metrics.at(1).items()) {
      EXPECT_NEAR(value.get<double>(), metrics.at(ranks).at(name), 1e-6)
          << name;
    }
    EXPECT_EQ(predictions.at(1), predictions.at(ranks));
  }
  EXPECT_GT(predictions.at(1).size(), 2500);
}

TEST_F(RanksTest, RefuseUnsupportedOptions) {
  const CliResult update =
      Create(2, "optimizations: {update_in_backward: true}\nmax_restarts: 0\n");
  EXPECT_NE(update.code, 0);
  EXPECT_THAT(update.err, HasSubstr("update_in_backward"));
  EXPECT_THAT(update.err, HasSubstr("slots_per_trial"));
  dtrain_.Write("few.yaml",
                "entrypoint: digits:LeNetTrial\n"
                "hyperparameters: {global_batch_size: 1}\n"
                "searcher: {name: single, metric: val_loss, max_length: "
                "{batches: 2}}\n"
                "resources: {slots: cpu:2, slots_per_trial: 2}\n"
                "max_restarts: 0\n");
  const CliResult few = dtrain_.Run({"create", "few.yaml"});
  EXPECT_EQ(few.code, 1);
  EXPECT_THAT(few.err, HasSubstr("do not suffice for 2 ranks"));
}

}  // namespace
}  // namespace dtrain

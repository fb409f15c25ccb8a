// Real trials that begin from a checkpoint.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/layout.h"
#include "tests/support/cli_runner.h"
#include "tests/support/fault_yaml.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kLeNetYaml[] =
    "name: digits\n"
    "entrypoint: digits:LeNetTrial\n"
    "hyperparameters: {lr: 0.05, global_batch_size: 16, dataset: strokes,\n"
    "                  training_samples: 640}\n"
    "searcher: {name: single, metric: val_accuracy, smaller_is_better: false,\n"
    "           max_length: 40}\n"
    "scheduling_unit: 20\n"
    "reproducibility: {experiment_seed: 3}\n"
    "resources: {slots: cpu}\n";

class ContinueRunTest : public testing::Test {
 protected:
  CliResult Run(const std::vector<std::string>& arguments) const {
    CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return result;
  }
  // A validation metric of the only trial at a batch.
  json Metric(const std::string& trial, const std::string& name,
              std::int64_t batches) const {
    const json rows = Run({"metrics", trial, "--kind", "validation", "--name",
                           name, "--json"})
                          .Json()["metrics"];
    for (const json& row : rows) {
      if (row["batches"] == batches) return row["value"];
    }
    return nullptr;
  }

  CliRunner dtrain_;
};

TEST_F(ContinueRunTest, BeginsWithTheWeightsAndCountsFromNothing) {
  dtrain_.Write("digits.yaml", kLeNetYaml);
  Run({"create", "digits.yaml"});
  Run({"continue", "1.1", "--set", "perform_initial_validation=true", "--set",
       "searcher.max_length=20"});
  const json last = Metric("1.1", "val_accuracy", 40);
  ASSERT_TRUE(last.is_number());
  EXPECT_EQ(Metric("2.1", "val_accuracy", 0), last);
  EXPECT_EQ(Run({"trials", "2", "--json"}).Json()["trials"][0]["batches"], 20);
  EXPECT_THAT(Run({"logs", "2"}).out, HasSubstr("began from checkpoint"));
  const json made = Run({"describe", "2", "--json"}).Json();
  EXPECT_EQ(made["provenance"]["forked_from"]["trial"], "1.1");
}

TEST_F(ContinueRunTest, DoesSoWhereAYamlNamesTheTrial) {
  dtrain_.Write("digits.yaml", kLeNetYaml);
  Run({"create", "digits.yaml"});
  Run({"create", "digits.yaml", "--set", "searcher.source_trial_id=1.1",
       "--set", "perform_initial_validation=true"});
  EXPECT_EQ(Metric("2.1", "val_accuracy", 0),
            Metric("1.1", "val_accuracy", 40));
}

// The loss falls and a greater one is better: batch 20 is the best.
TEST_F(ContinueRunTest, BeginsWithTheBestModelOrRefuses) {
  dtrain_.Write("fault.yaml", FaultYaml("x: 0.3", 60));
  const std::vector<std::string> create = {"create", "fault.yaml", "--set",
                                           "searcher.smaller_is_better=false",
                                           "--set"};
  auto first = create;
  first.emplace_back("checkpoint_policy=best");
  Run(first);
  auto second = create;
  second.emplace_back("checkpoint_policy=none");
  second.insert(second.end(), {"--set", "min_checkpoint_period=30"});
  dtrain_.Run(second);
  const auto from = [&](const std::string& id) {
    return Run({"describe", id, "--json"})
        .Json()["provenance"]["forked_from"]["batches"];
  };
  Run({"continue", "1.1", "--best"});
  EXPECT_EQ(from("3"), 20);
  Run({"continue", "1", "--best"});
  EXPECT_EQ(from("4"), 20);
  Run({"continue", "1", "--latest"});
  EXPECT_EQ(from("5"), 60);

  for (const char* source : {"2", "2.1"}) {
    const CliResult refused = dtrain_.Run({"continue", source, "--best"});
    EXPECT_EQ(refused.code, 3);
    EXPECT_THAT(refused.err,
                HasSubstr("trial 2.1: its best validation (loss 0.833333 at "
                          "batch 20) has no checkpoint"));
    EXPECT_THAT(refused.err, HasSubstr("--latest"));
  }
  EXPECT_EQ(dtrain_.Run({"describe", "6"}).code, 3);
}

TEST_F(ContinueRunTest, GoesOnAfterItsSourceIsDeleted) {
  dtrain_.Write("fault.yaml", FaultYaml("x: 0.3, step_ms: 10", 40));
  Run({"create", "fault.yaml"});
  const CliResult paused =
      dtrain_.Run({"continue", "1.1", "--set", "searcher.max_length=200"},
                  {.signal_when = "validation at batch 20", .signal = SIGINT});
  ASSERT_EQ(paused.code, 130) << paused.err;
  Run({"delete", "1", "--yes"});
  Run({"gc"});
  EXPECT_EQ(Run({"resume", "2", "--json"}).Json()["state"], "COMPLETED");
}

TEST_F(ContinueRunTest, RunsInTheBackground) {
  dtrain_.Write("fault.yaml", FaultYaml("x: 0.3", 40));
  Run({"create", "fault.yaml"});
  EXPECT_EQ(Run({"continue", "1.1", "-d"}).out, "2\n");
  Run({"wait", "2"});
}

}  // namespace
}  // namespace dtrain

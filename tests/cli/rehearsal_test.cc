// `dtrain create --test`.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RehearsalTest : public testing::Test {
 protected:
  CliResult Test(const std::string& hparams,
                 const std::vector<std::string>& more = {}) const {
    dtrain_.Write("test.yaml",
                  "entrypoint: digits:LeNetTrial\n"
                  "hyperparameters: " +
                      hparams +
                      "\n"
                      "searcher: {name: asha, metric: val_loss, "
                      "max_length: {epochs: 50}, num_rungs: 2, "
                      "max_trials: 50}\n"
                      "resources: {slots: cpu}\n");
    std::vector<std::string> arguments = {"create", "test.yaml", "--test"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return dtrain_.Run(arguments);
  }

  const CliRunner dtrain_;
};

TEST_F(RehearsalTest, TrainsValidatesRestoresAndKeepsNothing) {
  const CliResult result = Test(
      "{dataset: strokes, global_batch_size: 16, lr: {type: double, minval: "
      "0.01, maxval: 0.1}, optimizer: adam, momentum: 0.9, gamma: 0.5}",
      {"--json"});

  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = result.Json();
  EXPECT_EQ(json["passed"], true);
  EXPECT_EQ(json["error"], nullptr);
  EXPECT_EQ(json["restored"], true);
  EXPECT_GE(json["validations"], 3);
  EXPECT_GT(json["checkpoint_bytes"], 1000);
  EXPECT_THAT(json["unread_hyperparameters"], ElementsAre("gamma", "momentum"));
  EXPECT_THAT(
      result.err,
      HasSubstr("the trial did not read the hyperparameters gamma, momentum"));
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
}

TEST_F(RehearsalTest, ReportsThePassedSteps) {
  const CliResult result =
      Test("{dataset: strokes, global_batch_size: 16, lr: 0.1}");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(": trained, validated, checkpointed ("));
  EXPECT_THAT(result.out, HasSubstr("), restored\n"));
}

TEST_F(RehearsalTest, ReportsTheFailedStep) {
  const CliResult result = Test(
      "{dataset: strokes, global_batch_size: 16, optimizer: sgdd}", {"--json"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.Json()["passed"], false);
  EXPECT_THAT(result.err, HasSubstr("the test failed: "));
  EXPECT_THAT(result.err, HasSubstr("'sgdd' is unknown"));

  const CliResult metric =
      Test("{dataset: strokes, global_batch_size: 16}",
           {"--set", "searcher.metric=accuracy_of_validation"});
  EXPECT_EQ(metric.code, 1);
  EXPECT_THAT(metric.err, HasSubstr("'accuracy_of_validation' was not "
                                    "reported; reported: val_"));
}

TEST_F(RehearsalTest, RefusesOptionsThatNeedAnExperiment) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--dry-run"},
        {"-d"},
        {"--jsonl"},
        {"--require", "loss<1"},
        {"--timeout", "5"},
        {"--junit", "x.xml"}}) {
    const CliResult result = Test("{global_batch_size: 16}", flags);
    EXPECT_EQ(result.code, 2) << flags[0];
    EXPECT_THAT(result.err, HasSubstr("--test keeps no experiment"));
  }
}

}  // namespace
}  // namespace dtrain

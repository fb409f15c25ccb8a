// pause, cancel and kill, asked of a runner from another process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/fault_yaml.h"

namespace dtrain {
namespace {

using nlohmann::json;

// A search whose trials would train for minutes, in the background.
class RequestRunTest : public testing::Test {
 protected:
  void SetUp() override {
    dtrain_.Write(
        "search.yaml",
        SearchYaml("name: random, max_trials: 3, max_length: 100000", "cpu:2"));
    const CliResult result = dtrain_.Run({"create", "search.yaml", "-d"});
    ASSERT_EQ(result.code, 0) << result.err;
    ASSERT_EQ(dtrain_
                  .RunProgram({"bash", "-c",
                               "until dtrain trials 1 --json | grep -q "
                               "'\"batches\": [1-9]'; do :; done"})
                  .code,
              0);
  }

  json Trials() const {
    return dtrain_.Run({"trials", "1", "--json"}).Json().at("trials");
  }
  std::string State() const {
    return dtrain_.Run({"describe", "1", "--json"}).Json().at("state");
  }

  CliRunner dtrain_;
};

TEST_F(RequestRunTest, PausesAndGoesOn) {
  EXPECT_EQ(dtrain_.Run({"pause", "1"}).code, 0);

  EXPECT_EQ(State(), "PAUSED");
  const json paused = Trials().at(0);
  EXPECT_EQ(paused.at("state"), "PAUSED");
  EXPECT_GT(paused.at("batches"), 0);
  EXPECT_EQ(dtrain_.Run({"wait", "1"}).code, 75);
  ASSERT_EQ(dtrain_.Run({"resume", "1", "-d"}).code, 0);
  EXPECT_EQ(dtrain_.Run({"cancel", "1"}).code, 0);
  EXPECT_GE(Trials().at(0).at("batches"), paused.at("batches"));
}

TEST_F(RequestRunTest, CancelsForGood) {
  EXPECT_EQ(dtrain_.Run({"cancel", "1"}).code, 0);

  EXPECT_EQ(State(), "CANCELED");
  EXPECT_EQ(Trials().at(0).at("state"), "CANCELED");
  EXPECT_EQ(dtrain_.Run({"wait", "1"}).code, 1);
}

TEST_F(RequestRunTest, KillsOneTrialAndGoesOnWithTheNext) {
  EXPECT_EQ(dtrain_.Run({"kill", "1.1"}).code, 0);

  EXPECT_EQ(State(), "RUNNING");
  EXPECT_EQ(Trials().at(0).at("state"), "CANCELED");
  EXPECT_EQ(Trials().at(0).at("reason"), "killed by request");
  EXPECT_EQ(Trials().size(), 3u);
  EXPECT_EQ(dtrain_.Run({"kill", "1"}).code, 0);
  EXPECT_EQ(State(), "CANCELED");
}

}  // namespace
}  // namespace dtrain

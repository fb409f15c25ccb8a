// One model on several machines: here processes of one machine, each with a
// CPU slot, which meet at 127.0.0.1.

#include <filesystem>
#include <future>
#include <map>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/os/socket.h"
#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class NodesCliTest : public testing::Test {
 protected:
  using Variables = std::map<std::string, std::string>;

  // LeNet on drawn digits. Two slots share the machine's cores; a trial of one
  // process has `slots` of them.
  void WriteConfig(const std::string& name, int slots, int batches,
                   const std::string& more = "") const {
    dtrain_.Write(name,
                  "entrypoint: digits:LeNetTrial\n"
                  "hyperparameters: {global_batch_size: 60, lr: 0.1}\n"
                  "searcher: {name: single, metric: val_loss, max_length: "
                  "{batches: " +
                      std::to_string(batches) +
                      "}}\n"
                      "reproducibility: {experiment_seed: 3}\n"
                      "resources: {slots: cpu:2, slots_per_trial: " +
                      std::to_string(slots) + "}\n" + more);
  }
  Variables Rank(int rank) const {
    return {{"RANK", std::to_string(rank)},
            {"WORLD_SIZE", "2"},
            {"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", std::to_string(port_)}};
  }
  std::future<CliResult> Start(int rank, const std::string& config,
                               const Variables& more = {}) const {
    return std::async(std::launch::async, [this, rank, config, more] {
      Variables environment = Rank(rank);
      environment.insert(more.begin(), more.end());
      return dtrain_.Run({"create", config}, {.environment = environment});
    });
  }
  std::future<CliResult> StartScript(int rank, const std::string& text) const {
    return std::async(std::launch::async, [this, rank, text] {
      return dtrain_.RunProgram({"sh", "-c", text},
                                {.environment = Rank(rank)});
    });
  }
  std::int64_t RestartsOf(const std::string& experiment) const {
    const json trials = dtrain_.Run({"trials", experiment, "--json"}).Json();
    return trials.at("trials").at(0).at("restarts").get<std::int64_t>();
  }

  CliRunner dtrain_;
  // Free now, and most likely in a moment.
  const int port_ = PortOf(ListenAt({.host = "127.0.0.1"}).get());
};

TEST_F(NodesCliTest, TwoOfThemLearnToTheBitWhatTwoRanksOfOneDo) {
  WriteConfig("one.yaml", 2, 20, "scheduling_unit: 1\n");
  WriteConfig("two.yaml", 1, 20, "scheduling_unit: 1\n");
  const CliResult one = dtrain_.Run({"create", "one.yaml"});
  ASSERT_EQ(one.code, 0) << one.err;

  auto follower = Start(1, "two.yaml");
  const CliResult runner = Start(0, "two.yaml").get();

  ASSERT_EQ(runner.code, 0) << runner.err;
  const CliResult followed = follower.get();
  EXPECT_EQ(followed.code, 0) << followed.err;
  const TrialMetrics alone = MetricsOf(dtrain_, "1.1");
  EXPECT_EQ(alone.count({"training", 20, "loss"}), 1);
  EXPECT_EQ(alone, MetricsOf(dtrain_, "2.1"));
  // The store has nothing of the follower's own.
  EXPECT_EQ(
      dtrain_.Run({"list", "-a", "--json"}).Json().at("experiments").size(), 2);
}

TEST_F(NodesCliTest, AFollowerThatDiesIsWaitedForAndAllStartAgain) {
  const std::string often =
      "scheduling_unit: 5\nmin_checkpoint_period: {batches: 20}\n";
  // Long enough to be killed in, on a fast machine as well.
  WriteConfig("one.yaml", 2, 1500, often);
  WriteConfig("two.yaml", 1, 1500, often);
  ASSERT_EQ(dtrain_.Run({"create", "one.yaml"}).code, 0);

  auto runner = Start(0, "two.yaml");
  const CliResult followers =
      StartScript(1,
                  "dtrain create two.yaml & first=$!\n"
                  "until dtrain metrics 2.1 --json 2>/dev/null |"
                  " grep -q '\"batches\"'; do sleep 0.1; done\n"
                  "kill -9 $first; wait $first\n"
                  "exec dtrain create two.yaml\n")
          .get();

  const CliResult run = runner.get();
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(followers.code, 0) << followers.err;
  EXPECT_EQ(RestartsOf("2"), 1);
  EXPECT_EQ(MetricsOf(dtrain_, "1.1"), MetricsOf(dtrain_, "2.1"));
}

TEST_F(NodesCliTest, AFollowerWithAnotherFileIsRefused) {
  WriteConfig("two.yaml", 1, 5);
  WriteConfig("other.yaml", 1, 6);
  auto runner = Start(0, "two.yaml");

  const CliResult other = Start(1, "other.yaml").get();
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("its configuration differs"));

  EXPECT_EQ(Start(1, "two.yaml").get().code, 0);
  const CliResult run = runner.get();
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("RANK=1 was rejected"));
}

TEST_F(NodesCliTest, AFollowerWithAnotherSecretIsRefused) {
  WriteConfig("two.yaml", 1, 5);
  const std::string secret = dtrain_.Write("secret", std::string(32, 'x'));
  std::filesystem::permissions(secret, std::filesystem::perms(0600));
  auto runner = Start(0, "two.yaml");

  const CliResult other =
      Start(1, "two.yaml", {{"DTRAIN_SECRET_FILE", secret}}).get();
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err,
              HasSubstr("a different secret from DTRAIN_SECRET_FILE="));

  EXPECT_EQ(Start(1, "two.yaml").get().code, 0);
  const CliResult run = runner.get();
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("without the secret of"));
}

TEST_F(NodesCliTest, ASecretOfTheirOwnServesAsWell) {
  WriteConfig("two.yaml", 1, 5);
  const std::string secret = dtrain_.Write("secret", std::string(32, 'x'));
  std::filesystem::permissions(secret, std::filesystem::perms(0600));
  const Variables named = {{"DTRAIN_SECRET_FILE", secret}};
  auto runner = Start(0, "two.yaml", named);

  EXPECT_EQ(Start(1, "two.yaml", named).get().code, 0);
  const CliResult run = runner.get();
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store() / "secret"));
}

}  // namespace
}  // namespace dtrain

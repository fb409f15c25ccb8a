// dtrain under a real Slurm with three nodes, all of them on this machine.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/slurm_cluster.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

class SlurmCliTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = SlurmCluster::Obstacle(); !why.empty()) {
      GTEST_SKIP() << why;
    }
    cluster_.emplace();
  }
  CliResult Run(const std::vector<std::string>& words) const {
    return dtrain_.RunProgram(
        words, {.environment = {{"SLURM_CONF", cluster_->configuration()}}});
  }

  CliRunner dtrain_;
  std::optional<SlurmCluster> cluster_;
};

TEST_F(SlurmCliTest, OneCommandRunsInOneTaskOnly) {
  dtrain_.Write("command.yaml",
                "entrypoint: ['true']\n"
                "searcher: {name: single, metric: loss}\n");
  const CliResult two =
      Run({"srun", "--ntasks=2", "dtrain", "create", "command.yaml"});
  EXPECT_EQ(two.code, 2) << two.err;
  EXPECT_THAT(two.err, HasSubstr("srun started 2 tasks: a command runs as one "
                                 "process on one machine"));
  EXPECT_THAT(two.err, HasSubstr("start one task ('srun -n1')"));
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));

  const CliResult one =
      Run({"srun", "--ntasks=1", "dtrain", "create", "command.yaml"});
  EXPECT_THAT(one.err, HasSubstr("experiment 1")) << one.code;
}

#ifdef DTRAIN_HAS_TRIALS

// LeNet on drawn digits; a trial of one process has `slots` slots.
std::string DigitsYaml(int slots) {
  return "entrypoint: digits:LeNetTrial\n"
         "hyperparameters: {global_batch_size: 20, lr: 0.1}\n"
         "searcher: {name: single, metric: val_loss, max_length: {batches: "
         "5}}\n"
         "reproducibility: {experiment_seed: 3}\n"
         "resources: {slots: cpu:2, slots_per_trial: " +
         std::to_string(slots) + "}\n";
}

TEST_F(SlurmCliTest, TasksOnTwoNodesTrainOneModelWithoutAnyVariable) {
  dtrain_.Write("one.yaml", DigitsYaml(2));
  dtrain_.Write("two.yaml", DigitsYaml(1));
  const CliResult alone = dtrain_.Run({"create", "one.yaml"});
  ASSERT_EQ(alone.code, 0) << alone.err;

  const CliResult run = Run({"srun", "--nodes=2", "--ntasks-per-node=1",
                             "dtrain", "create", "two.yaml"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(MetricsOf(dtrain_, "2.1").count({"training", 5, "loss"}), 1);
  EXPECT_EQ(MetricsOf(dtrain_, "1.1"), MetricsOf(dtrain_, "2.1"));
}

#endif  // DTRAIN_HAS_TRIALS

}  // namespace
}  // namespace dtrain

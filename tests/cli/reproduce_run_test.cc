// Real trials that are run again.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/fault_yaml.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Two trials at once, so that each has fewer threads than a trial alone.
constexpr char kDigits[] =
    "name: digits\n"
    "entrypoint: digits:LeNetTrial\n"
    "hyperparameters:\n"
    "  dataset: strokes\n"
    "  training_samples: 640\n"
    "  lr: {type: log, minval: -3, maxval: -1}\n"
    "  global_batch_size: 16\n"
    "searcher: {name: asha, metric: val_accuracy, smaller_is_better: false,\n"
    "           max_length: 40, max_trials: 4, num_rungs: 2, divisor: 2}\n"
    "scheduling_unit: 15\n"
    "reproducibility: {experiment_seed: 3}\n"
    "resources: {slots: \"cpu:2\"}\n";

class ReproduceRunTest : public testing::Test {
 protected:
  void Create(const std::string& yaml) const {
    const auto file = dtrain_.Write("in.yaml", yaml);
    const CliResult result = dtrain_.Run({"create", "in.yaml"});
    EXPECT_EQ(result.code, 0) << result.err;
    std::filesystem::remove(file);
  }
  // The first trial of experiment 1 that came to this end.
  std::string TrialThat(const std::string& state) const {
    const json rows = dtrain_.Run({"trials", "1", "--json"}).Json()["trials"];
    for (const json& row : rows) {
      if (row["state"] == state) return row["trial"];
    }
    ADD_FAILURE() << "none is " << state;
    return "1.1";
  }
  json ExpectEqual(const std::string& trial) const {
    const CliResult result = dtrain_.Run({"reproduce", trial, "--json"});
    EXPECT_EQ(result.code, 0) << result.err;
    const json document = result.Json();
    EXPECT_EQ(document["reproduction"]["equal"], true) << result.out;
    EXPECT_EQ(document["reproduction"]["different"], 0);
    return document;
  }

  CliRunner dtrain_;
};

TEST_F(ReproduceRunTest, ComesToTheSameBits) {
  Create(kDigits);
  const json promoted = ExpectEqual(TrialThat("COMPLETED"));
  EXPECT_GT(promoted["reproduction"]["metrics"], 8);
  const json stopped = ExpectEqual(TrialThat("STOPPED"));
  EXPECT_LT(stopped["reproduction"]["metrics"],
            promoted["reproduction"]["metrics"]);
}

TEST_F(ReproduceRunTest, SaysThatItIsEqual) {
  Create(FaultYaml("x: 0.3", 40));
  const CliResult result = dtrain_.Run({"reproduce", "1.1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("trial 2.1 has the same "));
  EXPECT_THAT(result.out, HasSubstr(" as 1.1, bit for bit\n"));
  EXPECT_THAT(dtrain_.Run({"describe", "2"}).out,
              HasSubstr("  reproduces    1.1\n"));
}

TEST_F(ReproduceRunTest, SaysWhereItDiffers) {
  Create(FaultYaml("x: 0.3", 40));
  {
    Store store = Store::OpenForWriting(StoreLayout(dtrain_.store()));
    store.Write([](StoreWriter& writer) {
      writer.AddMetrics({1, 1}, MetricKind::kValidation, 20, 1,
                        {{"loss", 0.125}}, Timestamp(1));
    });
  }
  const CliResult result = dtrain_.Run({"reproduce", "1.1"});
  EXPECT_EQ(result.code, 4) << result.err;
  EXPECT_THAT(result.out, HasSubstr("of validation loss at batch 20: "));
  EXPECT_THAT(result.out, HasSubstr("instead of 0.125"));
  EXPECT_EQ(dtrain_.Run({"reproduce", "1.1", "--tolerance", "1"}).code, 0);
}

TEST_F(ReproduceRunTest, BeginsFromTheSameCheckpoint) {
  Create(FaultYaml("x: 0.3", 40));
  ASSERT_EQ(dtrain_.Run({"continue", "1.1"}).code, 0);
  ASSERT_EQ(dtrain_.Run({"delete", "1", "--yes"}).code, 0);
  ExpectEqual("2.1");
}

TEST_F(ReproduceRunTest, SaysThatItsTrialWasRestarted) {
  dtrain_.Write("in.yaml", FaultYaml("x: 0.3, crash_at: 30, once: true", 40));
  ASSERT_EQ(dtrain_.Run({"create", "in.yaml", "--set", "max_restarts=1"}).code,
            0);
  const CliResult result = dtrain_.Run({"reproduce", "1.1"});
  EXPECT_THAT(result.err,
              HasSubstr("trial 1.1 was restarted after failures (1)"));
  EXPECT_EQ(result.code, 0) << result.out;
}

}  // namespace
}  // namespace dtrain

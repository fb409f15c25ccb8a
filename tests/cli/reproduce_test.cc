// `reproduce`: refusals, comparisons, and real trials that are run again.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/fault_yaml.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class ReproduceTest : public testing::Test {
 protected:
  ReproduceTest() { FillSampleStore(dtrain_.store()); }

  void ExpectRefused(std::vector<std::string> arguments, int code,
                     const std::string& message) const {
    arguments.insert(arguments.begin(), "reproduce");
    const CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(dtrain_.Run({"describe", "4"}).code, 3);
  }
  CliResult Compare(std::vector<std::string> more) const {
    more.insert(more.begin(), "reproduce");
    more.emplace_back("--json");
    return dtrain_.Run(more);
  }

  CliRunner dtrain_;
};

TEST_F(ReproduceTest, RefusesInvalidArgumentsAndUntrainedTrials) {
  ExpectRefused({"9.1"}, 3, "no experiment 9");
  ExpectRefused({"1.7"}, 3, "has no trial 1.7");
  ExpectRefused({"1"}, 2, "'1' is an experiment; give one of its trials");
  ExpectRefused({"1.1", "--tolerance", "much"}, 2, "--tolerance: 'much'");
  ExpectRefused({"1.1", "--tolerance", "-1"}, 2, "--tolerance: '-1'");
  ExpectRefused({"1.1", "--against", "1.7"}, 3, "has no trial 1.7");
  ExpectRefused({"1.1"}, 2, "has not trained");
}

TEST_F(ReproduceTest, RefusesATrialThatHasNotEnded) {
  Store store = Store::OpenForWriting(StoreLayout(dtrain_.store()));
  store.Write([](StoreWriter& writer) {
    writer.AddTrial({.id = {2, 1}, .request_id = "r"});
    writer.SetTrialState({2, 1}, State::kRunning, Timestamp(1));
  });
  ExpectRefused({"2.1"}, 2, "trial 2.1 is RUNNING; reproduce it after");
}

TEST_F(ReproduceTest, FindsATrialEqualToItself) {
  const CliResult result = Compare({"1.2", "--against", "1.2"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.Json()["equal"], true);
  EXPECT_EQ(result.Json()["metrics"], 4);  // one is NaN
  EXPECT_THAT(dtrain_.Run({"reproduce", "1.2", "--against", "1.2"}).out,
              HasSubstr("trial 1.2 has the same 4 metrics as 1.2, bit for "
                        "bit\n"));
}

TEST_F(ReproduceTest, ReportsTheLargestDifference) {
  const CliResult result = Compare({"1.1", "--against", "1.2"});
  EXPECT_EQ(result.code, 4);
  const json document = result.Json();
  EXPECT_EQ(document["equal"], false);
  EXPECT_EQ(document["different"], 3);
  EXPECT_EQ(document["missing"], 0);
  EXPECT_DOUBLE_EQ(document["largest_difference"], 2.0 / 3);
  EXPECT_EQ(document["largest_at"]["kind"], "validation");
  EXPECT_EQ(document["largest_at"]["batches"], 100);
  EXPECT_THAT(dtrain_.Run({"reproduce", "1.1", "--against", "1.2"}).out,
              AllOf(HasSubstr("trial 1.2 differs from 1.1 in 3 of 3 metrics"),
                    HasSubstr("of validation "), HasSubstr(" at batch 100: ")));
}

TEST_F(ReproduceTest, AcceptsDifferencesWithinTolerance) {
  EXPECT_EQ(Compare({"1.1", "--against", "1.2", "--tolerance", "0.6"}).code, 4);
  EXPECT_EQ(Compare({"1.1", "--against", "1.2", "--tolerance", "0.7"}).code, 0);
}

TEST_F(ReproduceTest, RefusesMissingValues) {
  const CliResult result =
      Compare({"1.2", "--against", "1.1", "--tolerance", "0.7"});
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.Json()["missing"], 1);
}

#ifdef DTRAIN_HAS_TRIALS

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

TEST_F(ReproduceRunTest, IsBitIdentical) {
  Create(kDigits);
  const json promoted = ExpectEqual(TrialThat("COMPLETED"));
  EXPECT_GT(promoted["reproduction"]["metrics"], 8);
  const json stopped = ExpectEqual(TrialThat("STOPPED"));
  EXPECT_LT(stopped["reproduction"]["metrics"],
            promoted["reproduction"]["metrics"]);
}

TEST_F(ReproduceRunTest, ReportsEquality) {
  Create(FaultYaml("x: 0.3", 40));
  const CliResult result = dtrain_.Run({"reproduce", "1.1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("trial 2.1 has the same "));
  EXPECT_THAT(result.out, HasSubstr(" as 1.1, bit for bit\n"));
  EXPECT_THAT(dtrain_.Run({"describe", "2"}).out,
              HasSubstr("  reproduces    1.1\n"));
}

TEST_F(ReproduceRunTest, ReportsTheDifferingMetric) {
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

TEST_F(ReproduceRunTest, StartsFromTheSameCheckpoint) {
  Create(FaultYaml("x: 0.3", 40));
  ASSERT_EQ(dtrain_.Run({"continue", "1.1"}).code, 0);
  ASSERT_EQ(dtrain_.Run({"delete", "1", "--yes"}).code, 0);
  ExpectEqual("2.1");
}

TEST_F(ReproduceRunTest, ReportsThatTheTrialWasRestarted) {
  dtrain_.Write("in.yaml", FaultYaml("x: 0.3, crash_at: 30, once: true", 40));
  ASSERT_EQ(dtrain_.Run({"create", "in.yaml", "--set", "max_restarts=1"}).code,
            0);
  const CliResult result = dtrain_.Run({"reproduce", "1.1"});
  EXPECT_THAT(result.err,
              HasSubstr("trial 1.1 was restarted after failures (1)"));
  EXPECT_EQ(result.code, 0) << result.out;
}

#endif  // DTRAIN_HAS_TRIALS

}  // namespace
}  // namespace dtrain

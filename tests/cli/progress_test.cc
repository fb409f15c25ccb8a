// Output for a running or ended experiment: state, progress, duration and
// the reason of a wait.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/fault_yaml.h"
#include "tests/support/json_schema.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class ProgressTest : public testing::Test {
 protected:
  // Creates `yaml` in the background.
  void Begin(const std::string& yaml, const std::string& name = "search.yaml") {
    dtrain_.Write(name, yaml);
    const CliResult result = dtrain_.Run({"create", name, "-d"});
    ASSERT_EQ(result.code, 0) << result.err;
  }
  // Waits until `command`, a shell condition, is true.
  void Until(const std::string& command) const {
    ASSERT_EQ(dtrain_
                  .RunProgram({"bash", "-c",
                               "for i in $(seq 600); do " + command +
                                   " && exit 0; sleep 0.1; done; exit 1"})
                  .code,
              0)
        << command;
  }
  json Described(const std::string& id = "1") const {
    return dtrain_.Run({"describe", id, "--json"}).Json();
  }

  CliRunner dtrain_;
};

TEST_F(ProgressTest, IsCanceledOnceEveryTrialWasKilled) {
  Begin(SearchYaml("name: random, max_trials: 2, max_length: 100000", "cpu:2"));
  Until(
      "test $(dtrain trials 1 --json | grep -c '\"state\": \"RUNNING\"') = 2");
  ASSERT_EQ(dtrain_.Run({"kill", "1.1", "1.2"}).code, 0);

  const CliResult waited = dtrain_.Run({"wait", "1"});

  EXPECT_EQ(waited.code, 1);
  EXPECT_THAT(waited.err, HasSubstr("is CANCELED: every trial was killed"));
  EXPECT_EQ(Described()["state"], "CANCELED");
  EXPECT_LT(Described()["progress"], 0.5);
  EXPECT_THAT(dtrain_.Run({"resume", "1"}).err, HasSubstr("CANCELED"));
}

TEST_F(ProgressTest, CreateExitsWithOneIfItsTrialWasKilled) {
  dtrain_.Write("one.yaml", SearchYaml("name: single, max_length: 100000"));
  const CliResult result = dtrain_.RunProgram(
      {"bash", "-c",
       "dtrain create one.yaml & run=$!; "
       "until dtrain trials 1 --json 2>/dev/null | grep -q RUNNING; do :; "
       "done; dtrain kill 1.1; wait $run"});

  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("experiment 1 was canceled"));
  EXPECT_THAT(result.out, HasSubstr("its trial was killed"));
}

TEST_F(ProgressTest, SummaryReportsAKilledTrial) {
  // Only the second trial ends in this hour.
  dtrain_.Write("two.yaml",
                "entrypoint: builtin:FaultTrial\n"
                "hyperparameters:\n"
                "  step_ms: {type: categorical, vals: [5, 1000000]}\n"
                "searcher: {name: grid, metric: loss, max_length: 8}\n"
                "scheduling_unit: 4\nmax_restarts: 0\n"
                "resources: {slots: 'cpu:2'}\n");
  const CliResult result = dtrain_.RunProgram(
      {"bash", "-c",
       "dtrain create two.yaml & run=$!; "
       "until dtrain trials 1 --json 2>/dev/null | grep -q RUNNING; do :; "
       "done; dtrain kill 1.1; wait $run"});

  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 trials: 1 completed, 1 killed"));
}

TEST_F(ProgressTest, GrowsWhileTheTrialsOfASearchTrain) {
  Begin(SearchYaml("name: random, max_trials: 2, max_length: 100000", "cpu:2"));
  Until("dtrain list --json | grep -q '\"progress\": 0.0[0-9]*[1-9]'");

  EXPECT_GT(Described()["progress"], 0);
  EXPECT_LT(Described()["progress"], 0.5);
  EXPECT_EQ(dtrain_.Run({"cancel", "1"}).code, 0);
}

TEST_F(ProgressTest, StaysBelowOneForAFailedExperiment) {
  dtrain_.Write("fail.yaml",
                "entrypoint: sh -c 'exit 3'\n"
                "searcher: {name: random, metric: loss, "
                "max_trials: 2, max_length: 10}\n"
                "max_restarts: 0\n");
  EXPECT_EQ(dtrain_.Run({"create", "fail.yaml"}).code, 1);

  EXPECT_EQ(Described()["progress"], 0);
  EXPECT_THAT(dtrain_.Run({"list"}).out, Not(HasSubstr("%")));
  EXPECT_THAT(dtrain_.Run({"describe", "1"}).out,
              testing::ContainsRegex("progress +-\n"));
}

TEST_F(ProgressTest, DurationContinuesAfterAResume) {
  Begin(SearchYaml("name: single, max_length: 100000"));
  Until("dtrain list --json | grep -q '\"duration\": [2-9]'");
  ASSERT_EQ(dtrain_.Run({"pause", "1"}).code, 0);
  const double paused = Described()["duration"];
  const double trained = Described("1.1")["duration"];
  ASSERT_EQ(dtrain_.Run({"resume", "1", "-d"}).code, 0);
  Until("dtrain trials 1 --json | grep -q '\"state\": \"RUNNING\"'");
  dtrain_.RunProgram({"sleep", "2.5"});

  EXPECT_GT(Described()["duration"], paused + 1);
  EXPECT_GT(Described("1.1")["duration"], trained + 1);
  EXPECT_EQ(dtrain_.Run({"pause", "1"}).code, 0);
  const CliResult resumed =
      dtrain_.Run({"resume", "1", "--timeout", "1", "--json"});
  EXPECT_GT(resumed.Json()["duration"], paused + 2);
}

TEST_F(ProgressTest, ShowsWhyATrialWaitsForSlots) {
  const std::string length = "name: single, max_length: 100000";
  Begin(SearchYaml(length), "first.yaml");
  Until("dtrain trials 1 --json | grep -q '\"state\": \"RUNNING\"'");
  const CliResult second = [&] {
    dtrain_.Write("second.yaml", SearchYaml(length));
    return dtrain_.RunProgram(
        {"bash", "-c",
         "dtrain create second.yaml --jsonl >lines & "
         "for i in $(seq 600); do sleep 0.1; "
         "dtrain list | grep -q 'RUNNING (waiting)' && "
         "grep -q held_by lines && break; done; "
         "dtrain list; dtrain list --json >list; dtrain trials 2; "
         "dtrain describe 2; dtrain cancel 2; wait; true"});
  }();

  EXPECT_THAT(second.out, HasSubstr("RUNNING (waiting)"));
  EXPECT_THAT(second.out, HasSubstr("PENDING (waiting)"));
  EXPECT_THAT(second.out,
              testing::ContainsRegex(
                  "waiting for [0-9]+ of [0-9]+ (slot|core)s?, held by 1.1"));
  EXPECT_THAT(second.err,
              testing::ContainsRegex(
                  "waiting for [0-9]+ of [0-9]+ (slot|core)s?, held by 1.1"));
  const json rows = dtrain_.Run({"list", "--json"}).Json()["experiments"];
  EXPECT_EQ(rows[0]["waiting"], nullptr);
  const json row =
      json::parse(dtrain_.RunProgram({"cat", "list"}).out).at("experiments")[1];
  EXPECT_EQ(row["state"], "RUNNING");
  EXPECT_EQ(row["waiting"]["held_by"], json::array({"1.1"}));
  EXPECT_EQ(row["waiting"]["after"], json::array());
  EXPECT_GE(row["waiting"]["slots"], 1);
  EXPECT_GE(row["waiting"]["needed"], 1);
  const std::string lines = dtrain_.RunProgram({"cat", "lines"}).out;
  EXPECT_THAT(lines, HasSubstr("\"held_by\":[\"1.1\"]"));
  EXPECT_THAT(FindUndocumentedJson({"dtrain", "list", "--json"},
                                   dtrain_.RunProgram({"cat", "list"}).out),
              testing::IsEmpty());
  EXPECT_THAT(
      FindUndocumentedJson({"dtrain", "create", "x.yaml", "--jsonl"}, lines),
      testing::IsEmpty());
  EXPECT_EQ(dtrain_.Run({"cancel", "1"}).code, 0);
}

// A program that validates at the length that it is to train to.
std::string EpochsYaml(const std::string& fields) {
  return "entrypoint:\n"
         "  - sh\n"
         "  - -c\n"
         "  - >-\n"
         "    echo '{\"type\": \"validation\", \"metrics\": {\"loss\": 0.5},\n"
         "    " +
         fields +
         "}' >&3\n"
         "searcher: {name: single, metric: loss, max_length: {epochs: 3}}\n";
}

TEST_F(ProgressTest, CountsTheEpochsOfAProgramAsEpochs) {
  dtrain_.Write("epochs.yaml", EpochsYaml("\"epochs\": 3"));
  const CliResult created = dtrain_.Run({"create", "epochs.yaml"});

  ASSERT_EQ(created.code, 0) << created.err;
  EXPECT_THAT(created.out, HasSubstr("loss 0.5 at epoch 3\n"));
  EXPECT_THAT(created.err, HasSubstr("validation at epoch 3: loss 0.5"));
  EXPECT_THAT(created.err, HasSubstr("completed at epoch 3"));
  EXPECT_THAT(dtrain_.Run({"describe", "1"}).out,
              HasSubstr("loss 0.5 at epoch 3"));
  EXPECT_THAT(dtrain_.Run({"describe", "1.1"}).out,
              testing::ContainsRegex("epochs +3\n"));
  for (const char* command : {"trials", "best", "checkpoints", "metrics"}) {
    EXPECT_THAT(dtrain_.Run({command, "1"}).out, Not(HasSubstr("BATCHES")));
    EXPECT_THAT(dtrain_.Run({command, "1", "--csv"}).out, HasSubstr("batches"));
  }
}

TEST_F(ProgressTest, CountsTheEpochsOfAProgramThatDecidesItsLength) {
  dtrain_.Write("epochs.yaml", EpochsYaml("\"epochs\": 3"));
  const CliResult created =
      dtrain_.Run({"create", "epochs.yaml", "--set", "searcher.max_length="});

  ASSERT_EQ(created.code, 0) << created.err;
  EXPECT_THAT(created.out, HasSubstr("loss 0.5 at epoch 3\n"));
  EXPECT_THAT(created.err, HasSubstr("validation at epoch 3: loss 0.5"));
  const CliResult best = dtrain_.Run({"best", "1"});
  EXPECT_THAT(best.out, HasSubstr("EPOCHS"));
  EXPECT_THAT(best.err, HasSubstr("(loss 0.5 at epoch 3) has no checkpoint"));
}

TEST_F(ProgressTest, CountsTheBatchesOfAProgramThatReportsThem) {
  dtrain_.Write("both.yaml", EpochsYaml("\"epochs\": 3, \"batches\": 300"));
  const CliResult created = dtrain_.Run({"create", "both.yaml"});

  ASSERT_EQ(created.code, 0) << created.err;
  EXPECT_THAT(created.out, HasSubstr("loss 0.5 at epoch 3 (batch 300)\n"));
  EXPECT_THAT(created.err, HasSubstr("validation at epoch 3 (batch 300): "));
  EXPECT_THAT(dtrain_.Run({"describe", "1"}).out,
              HasSubstr("loss 0.5 at epoch 3 (batch 300)"));
}

TEST_F(ProgressTest, ReportsThatNoTrialWasTrainedToTheEnd) {
  dtrain_.Write("asha.yaml",
                SearchYaml("name: asha, max_trials: 3, num_rungs: 2, "
                           "divisor: 4, max_length: 16"));
  const CliResult created = dtrain_.Run({"create", "asha.yaml"});

  EXPECT_EQ(created.code, 0) << created.err;
  EXPECT_THAT(created.err,
              HasSubstr("searcher.max_trials: warning: no trial is expected"));
  EXPECT_THAT(
      created.out,
      testing::ContainsRegex("no trial was trained to 16 batches; continue the "
                             "best one with: dtrain continue 1\\.[123]\n"));
}

}  // namespace
}  // namespace dtrain

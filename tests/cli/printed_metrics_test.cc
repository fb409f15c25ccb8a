// Metrics that are found in the output of programs, through the binary.

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A script that prints its metrics and knows nothing of dtrain. Its first
// argument is the loss, its second the number of epochs.
constexpr char kScript[] = R"sh(set -eu
echo "loading data"
epoch=1
while [ "$epoch" -le "$2" ]; do
  echo "Epoch $epoch/$2"
  printf '10%%\r50%%\r' >&2
  echo "train loss: $1"
  printf '\033[32mval_acc = 0.%d%d\033[0m\n' "$epoch" "${1#0.}"
  epoch=$((epoch + 1))
done
echo saved > model
)sh";

constexpr char kMetrics[] =
    "{step: 'Epoch (\\d+)', loss: 'train loss: (\\S+)', acc: 'val_acc = "
    "(\\S+)'}";

class PrintedMetricsCommandTest : public testing::Test {
 protected:
  PrintedMetricsCommandTest() { dtrain_.Write("train.sh", kScript); }

  CliResult Create(std::vector<std::string> options = {}) const {
    dtrain_.Write("train.yaml",
                  "entrypoint: " + entrypoint_ + "\nmetrics: " + metrics_ +
                      "\nhyperparameters: {x: {type: categorical, vals: [0.2, "
                      "0.4, 0.1, 0.3]}}\nsearcher: {" +
                      searcher_ +
                      ", metric: acc, smaller_is_better: false}\n"
                      "reproducibility: {experiment_seed: 1}\n"
                      "resources: {slots: \"cpu:1\"}\nmax_restarts: 0\n");
    options.insert(options.begin(), {"create", "train.yaml", "--json"});
    return dtrain_.Run(options);
  }
  // "BATCHES NAME=VALUE" of each value of a kind in trial 1.1.
  std::vector<std::string> Metrics(const std::string& kind) const {
    std::vector<std::string> found;
    const json all =
        dtrain_.Run({"metrics", "1.1", "--kind", kind, "--json"}).Json();
    for (const json& row : all.at("metrics")) {
      found.push_back(row.at("batches").dump() + ' ' +
                      row.at("name").get<std::string>() + '=' +
                      row.at("value").dump());
    }
    return found;
  }
  json Trials() const {
    return dtrain_.Run({"trials", "1", "--json"}).Json().at("trials");
  }
  std::string Log() const { return dtrain_.Run({"logs", "1"}).out; }

  std::string entrypoint_ = "sh train.sh {x} {length}";
  std::string metrics_ = kMetrics;
  std::string searcher_ = "name: grid, max_length: {epochs: 3}";
  CliRunner dtrain_;
};

TEST_F(PrintedMetricsCommandTest, AreRecordedForEachEpoch) {
  const CliResult result = Create();
  ASSERT_EQ(result.code, 0) << result.err << Log();
  EXPECT_EQ(result.Json()["best"]["value"], 0.34);
  EXPECT_THAT(Metrics("validation"), testing::SizeIs(6));
  EXPECT_EQ(Trials()[0]["batches"], 3);
  EXPECT_THAT(Log(), AllOf(HasSubstr("loading data"), HasSubstr("Epoch 3/3"),
                           Not(HasSubstr("ignored"))));
}

// A search that stops trials tells the script the longest length, and ends it
// at a rung.
TEST_F(PrintedMetricsCommandTest, AScriptIsEndedAtARung) {
  searcher_ =
      "name: async_halving, max_trials: 4, num_rungs: 2, divisor: 3, "
      "stop_once: true, max_length: {epochs: 3}, max_concurrent_trials: 1";
  const CliResult result = Create();
  ASSERT_EQ(result.code, 0) << result.err << Log();
  std::map<std::string, int> states;
  for (const json& trial : Trials()) {
    ++states[trial.at("state").get<std::string>() + " " +
             trial.at("batches").dump()];
    EXPECT_EQ(trial.at("runs"), 1);
  }
  EXPECT_GE(states["COMPLETED 3"], 1);
  EXPECT_GE(states["STOPPED 1"], 1);
  EXPECT_EQ(states["COMPLETED 3"] + states["STOPPED 1"], 4);
  EXPECT_THAT(Log(), AllOf(HasSubstr("Epoch 1/3"), Not(HasSubstr("1/1"))));
}

// A search that promotes trials runs the script again to the longer length.
TEST_F(PrintedMetricsCommandTest, APromotedScriptIsRunAgain) {
  searcher_ =
      "name: async_halving, max_trials: 3, num_rungs: 2, divisor: 3, "
      "max_length: {epochs: 3}, max_concurrent_trials: 1";
  const CliResult result = Create();
  ASSERT_EQ(result.code, 0) << result.err << Log();
  json promoted;
  for (const json& trial : Trials()) {
    if (trial.at("batches") == 3) promoted = trial;
  }
  ASSERT_FALSE(promoted.is_null()) << Trials();
  EXPECT_EQ(promoted.at("runs"), 2);
  const auto id = promoted.at("trial").get<std::string>();
  const json metrics =
      dtrain_.Run({"metrics", id, "--name", "acc", "--json"}).Json();
  std::vector<std::string> found;
  for (const json& row : metrics.at("metrics")) {
    found.push_back(row.at("batches").dump());
  }
  EXPECT_THAT(found, ElementsAre("1", "2", "3")) << "each epoch once";
  EXPECT_THAT(dtrain_.Run({"logs", id}).out,
              HasSubstr("run again from its beginning to 3 epochs"));
}

TEST_F(PrintedMetricsCommandTest, AnEpochZeroIsRefused) {
  dtrain_.Write("train.sh", "echo 'Epoch 0'; sleep 600\n");
  searcher_ = "name: grid, max_length: {epochs: 3}, max_concurrent_trials: 1";
  const CliResult result = Create();
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_EQ(Trials()[0]["state"], "ERROR");
  EXPECT_EQ(Trials()[0]["runs"], 1);
  EXPECT_THAT(Trials()[0]["reason"].get<std::string>(),
              HasSubstr("set metrics.first_step: 0"));
}

TEST_F(PrintedMetricsCommandTest, TheReasonSaysWhatWasPrinted) {
  metrics_ = "{acc: 'accuracy (\\S+)'}";
  searcher_ = "name: grid, max_length: {epochs: 3}, max_concurrent_trials: 1";
  const CliResult result = Create();
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_THAT(Trials()[0]["reason"].get<std::string>(),
              AllOf(HasSubstr("ended at 0 of 3 epochs without a validation of "
                              "'acc' there; 'accuracy (\\S+)' matches none "
                              "of its "),
                    HasSubstr(" lines of output, which begins with 'loading "
                              "data', 'Epoch 1/3'")));
}

TEST_F(PrintedMetricsCommandTest, AProgramThatReportsAsWellIsRefused) {
  dtrain_.Write("train.sh",
                "echo '{\"type\":\"validation\",\"epochs\":3,\"metrics\":"
                "{\"acc\":1}}' >&3; sleep 600\n");
  searcher_ = "name: grid, max_length: {epochs: 3}, max_concurrent_trials: 1";
  EXPECT_EQ(Create().code, 1);
  EXPECT_THAT(Trials()[0]["reason"].get<std::string>(),
              HasSubstr("reads them elsewhere as well; remove the key"));
}

TEST_F(PrintedMetricsCommandTest, MistakesAreFoundBeforeAnythingIsCreated) {
  metrics_ = "{step: 'Epoch (\\d+', acd: '(.)'}";
  const CliResult result = Create();
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("train.yaml:2:17: metrics.step: "
                        "'Epoch (\\d+' is not a regular expression: "
                        "missing )"));
  metrics_ = "{acd: '(.)'}";
  EXPECT_THAT(Create().err, HasSubstr("searcher.metric: 'acc' is not among the "
                                      "keys of metrics, acd; did you mean "
                                      "'acd'?"));
}

TEST_F(PrintedMetricsCommandTest, AreReadFromAFile) {
  dtrain_.Write("train.sh",
                "echo epoch,loss,acc > m.csv\n"
                "for i in 1 2 3; do echo $i,$1,0.$i >> m.csv; done\n");
  metrics_ = "{file: m.csv}";
  searcher_ = "name: grid, max_length: {epochs: 3}, max_concurrent_trials: 1";
  const CliResult result = Create();
  ASSERT_EQ(result.code, 0) << result.err << Log();
  EXPECT_EQ(result.Json()["best"]["value"], 0.3);
  EXPECT_THAT(Metrics("validation"), testing::SizeIs(6));
}

TEST_F(PrintedMetricsCommandTest, AFileThatNeverAppearsIsInTheReason) {
  metrics_ = "{file: m.csv}";
  searcher_ = "name: grid, max_length: {epochs: 3}, max_concurrent_trials: 1";
  EXPECT_EQ(Create().code, 1);
  EXPECT_THAT(Trials()[0]["reason"].get<std::string>(),
              AllOf(HasSubstr("without a validation of 'acc' there; it did not "
                              "write "),
                    HasSubstr("/m.csv")));
}

TEST_F(PrintedMetricsCommandTest, TheExampleIsSearched) {
  const CliResult result = dtrain_.Run(
      {"create", DTRAIN_CONFIGS_DIR "/command_placeholders.yaml", "--json"});
  ASSERT_EQ(result.code, 0) << result.err << Log();
  EXPECT_GT(result.Json()["best"]["value"], 0.8);
  for (const json& trial : Trials()) EXPECT_EQ(trial.at("runs"), 1);
}

}  // namespace
}  // namespace dtrain

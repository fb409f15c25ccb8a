// More trials for a search, also one that has ended, and failed trials again,
// through the program: what is refused, what goes on, and what a kill leaves.

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/run/runner_lock.h"
#include "engine/store/layout.h"
#include "tests/support/cli_runner.h"
#include "tests/support/fault_run.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::Each;
using testing::HasSubstr;

class ExtendTest : public FaultRun {
 protected:
  // A program that trains to the length that it is asked for, from its
  // checkpoint, and has lr as its loss. Those with an lr above the number in
  // the file `limit`, if there is one, fail.
  void SetUp() override {
    dtrain_.Write("train.py",
                  "import json, os, pathlib, time\n"
                  "import dtrain\n"
                  "home = pathlib.Path(os.environ['DTRAIN_CONTEXT'])\n"
                  "trial = dtrain.init()\n"
                  "lr = trial.hparams['lr']\n"
                  "limit = home / 'limit'\n"
                  "if limit.exists() and lr > float(limit.read_text()):\n"
                  "    raise SystemExit('lr is too large')\n"
                  "done = 0\n"
                  "if trial.restore():\n"
                  "    done = int(open(trial.restore('n')).read())\n"
                  "for epoch in trial.epochs(9):\n"
                  "    assert epoch == done, (epoch, done)\n"
                  "    done += 1\n"
                  "    while (home / 'wait').exists(): time.sleep(.01)\n"
                  "    trial.validate(loss=lr)\n"
                  "    if trial.should_checkpoint:\n"
                  "        with trial.checkpoint() as path:\n"
                  "            (path / 'n').write_text(str(done))\n");
    dtrain_.Write(".detignore", "limit\nwait\n");
  }

  void ExpectHealthy() const {
    EXPECT_THAT(dtrain_.Run({"doctor"}).out,
                HasSubstr("recorded searches replay identically"));
  }
  CliResult CreateSearch(const std::string& searcher,
                         std::vector<std::string> options = {}) const {
    dtrain_.Write(
        "x.yaml",
        "entrypoint: python3 train.py\n"
        "hyperparameters: {lr: {type: double, minval: 0, maxval: 1}}\n"
        "max_restarts: 0\n"
        "resources: {slots: 'cpu:2'}\n"
        "reproducibility: {experiment_seed: 3}\n"
        "searcher: {metric: loss, max_length: {epochs: 9}, " +
            searcher + "}\n");
    std::vector<std::string> words = {"create", "x.yaml"};
    words.insert(words.end(), options.begin(), options.end());
    return dtrain_.Run(words);
  }
  json FindTrials(int experiment) const {
    return dtrain_.Run({"trials", std::to_string(experiment), "--json"})
        .Json()["trials"];
  }
  json Field(int experiment, const char* name) const {
    json values = json::array();
    for (const json& trial : FindTrials(experiment))
      values.push_back(trial[name]);
    return values;
  }
  json Experiment() const {
    return dtrain_.Run({"list", "--json"}).Json()["experiments"][0];
  }
};

struct ExtendCase {
  std::string name;
  std::string searcher;  // without max_trials
};

class ExtendMethodTest : public ExtendTest,
                         public testing::WithParamInterface<ExtendCase> {};

// As one that was created so large, for `import dtrain` with checkpoints: the
// same samples, and no length is trained twice.
TEST_P(ExtendMethodTest, GoesOnAfterItsEnd) {
  const std::string searcher = GetParam().searcher + ", max_trials: ";
  ASSERT_EQ(CreateSearch(searcher + "12").code, 0);
  ASSERT_EQ(CreateSearch(searcher + "6").code, 0);
  ASSERT_EQ(FindTrials(2).size(), 6u);

  const CliResult result = dtrain_.Run({"extend", "2", "--max-trials", "+6"});

  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Experiment()["state"], "COMPLETED");
  EXPECT_EQ(Experiment()["progress"], 1);
  if (GetParam().name != "Bayesian") {
    EXPECT_EQ(Field(2, "hparams"), Field(1, "hparams"));
  }
  EXPECT_GT(FindTrials(2).size(), 6u);
  const json extended =
      dtrain_.Run({"describe", "2", "--json"}).Json()["provenance"]["extended"];
  EXPECT_EQ(extended["searcher"]["max_trials"], 6);
  ASSERT_EQ(extended["plans"].size(), 1u);
  EXPECT_EQ(extended["plans"][0]["max_trials"], 12);
  for (const json& trial : FindTrials(2)) {
    EXPECT_EQ(trial["restarts"], 0) << trial;
    EXPECT_THAT(trial["state"], testing::AnyOf("COMPLETED", "STOPPED"));
  }
  ExpectHealthy();
}

INSTANTIATE_TEST_SUITE_P(
    All, ExtendMethodTest,
    testing::Values(
        ExtendCase{"Random", "name: random"},
        ExtendCase{"Promotion",
                   "name: async_halving, num_rungs: 2, divisor: 3"},
        ExtendCase{"Stopping",
                   "name: async_halving, num_rungs: 2, stop_once: true"},
        ExtendCase{"Adaptive",
                   "name: adaptive_asha, divisor: 3, max_rungs: 2, "
                   "max_concurrent_trials: 2"},
        ExtendCase{"Bayesian",
                   "name: bayesian_asha, num_rungs: 2, divisor: 3"}),
    [](const auto& info) { return info.param.name; });

// A trial that was closed, since nothing more could come, is promoted now; one
// whose checkpoint was deleted is not.
TEST_F(ExtendTest, PromotesWhatWasClosedWhileItHasACheckpoint) {
  const std::string searcher =
      "name: async_halving, num_rungs: 2, divisor: 3, max_trials: 3, "
      "max_concurrent_trials: 1, points: [{lr: 0.2}, {lr: 0.1}, {lr: 0.3}]";
  ASSERT_EQ(CreateSearch(searcher).code, 0);
  ASSERT_EQ(CreateSearch(searcher).code, 0);
  const json before = FindTrials(1);
  const json checkpoints = dtrain_.Run({"checkpoints", "2", "--json"}).Json();
  for (const json& checkpoint : checkpoints["checkpoints"]) {
    if (checkpoint["batches"] == 9) continue;
    const std::string uuid = checkpoint["uuid"];
    const CliResult deleted =
        dtrain_.Run({"checkpoint", "delete", uuid, "--yes"});
    ASSERT_EQ(deleted.code, 0) << deleted.err;
  }
  ASSERT_EQ(dtrain_.Run({"extend", "1", "--max-trials", "12"}).code, 0);
  ASSERT_EQ(dtrain_.Run({"extend", "2", "--max-trials", "12"}).code, 0);

  int promoted = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i]["state"] != "STOPPED") continue;
    promoted += FindTrials(1)[i]["state"] == "COMPLETED";
    EXPECT_EQ(FindTrials(2)[i]["state"], "STOPPED");
  }
  EXPECT_GT(promoted, 0);
}

// The trial that reached it is COMPLETED, the others are STOPPED with a
// checkpoint if they have trained. Extended, all of them go on to their length.
TEST_F(ExtendTest, GoesOnAfterItsTarget) {
  ASSERT_EQ(CreateSearch("name: random, max_trials: 5, target: 0.4").code, 0);
  std::map<std::string, int> states;
  for (const json& trial : FindTrials(1)) {
    // Others may have trained to their length before.
    if (trial["reason"].is_null()) continue;
    ++states[trial["state"]];
    EXPECT_THAT(trial["reason"].get<std::string>(),
                HasSubstr("target reached: trial 1."));
  }
  EXPECT_EQ(states["COMPLETED"], 1);
  EXPECT_GE(states["STOPPED"], 1);
  EXPECT_EQ(Experiment()["state"], "COMPLETED");

  ASSERT_EQ(dtrain_.Run({"extend", "1", "--max-trials", "6"}).code, 0);
  EXPECT_EQ(FindTrials(1).size(), 6u);
  EXPECT_THAT(Field(1, "state"), Each("COMPLETED"));
  EXPECT_THAT(Field(1, "batches"), Each(9));
  ExpectHealthy();
}

// While it runs, from another process; and a kill of the runner loses nothing.
TEST_F(ExtendTest, TakesARunningSearchOn) {
  dtrain_.Write("wait", "");
  ASSERT_EQ(CreateSearch("name: random, max_trials: 2", {"-d"}).code, 0);
  const CliResult set = dtrain_.Run({"set", "max-trials", "1", "4"});
  EXPECT_EQ(set.code, 0) << set.err;
  EXPECT_THAT(set.err, HasSubstr("the search has 4 trials now"));
  ASSERT_TRUE(Within(Seconds(20), [&] { return FindTrials(1).size() == 4; }));
  const CliResult more = dtrain_.Run({"extend", "1", "--max-trials", "+1"});
  EXPECT_EQ(more.code, 0) << more.err;
  ASSERT_TRUE(Within(Seconds(20), [&] { return FindTrials(1).size() == 5; }));

  const auto holder =
      RunnerLock::Holder(StoreLayout(dtrain_.store()).RunnerLock(1));
  ASSERT_TRUE(holder.has_value());
  ASSERT_EQ(kill(static_cast<pid_t>(holder->pid), SIGKILL), 0);
  std::filesystem::remove(dtrain_.directory() / "wait");
  EXPECT_EQ(dtrain_.Run({"resume", "1"}).code, 0);
  EXPECT_THAT(Field(1, "state"), Each("COMPLETED"));
  EXPECT_EQ(FindTrials(1).size(), 5u);
  ExpectHealthy();
}

TEST_F(ExtendTest, FailedTrialsRunAgainInTheirPlace) {
  ASSERT_EQ(CreateSearch("name: random, max_trials: 6").code, 0);
  dtrain_.Write("limit", "0.5");
  const CliResult failed = CreateSearch("name: random, max_trials: 6");
  EXPECT_THAT(Field(2, "state"), testing::Contains("ERROR"));
  std::filesystem::remove(dtrain_.directory() / "limit");

  const CliResult retried = dtrain_.Run({"resume", "2", "--failed", "--json"});

  ASSERT_EQ(retried.code, 0) << retried.err;
  EXPECT_EQ(retried.Json()["state"], "COMPLETED");
  for (const char* field : {"hparams", "state", "seed"}) {
    EXPECT_EQ(Field(2, field), Field(1, field)) << field;
  }
  ExpectHealthy();
  const CliResult again = dtrain_.Run({"resume", "2", "--failed"});
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.err, HasSubstr("has no trial in ERROR"));
}

// A budget that was given stays when trials are added.
TEST_F(ExtendTest, KeepsABudgetThatWasGiven) {
  ASSERT_EQ(CreateSearch("name: bayesian_asha, max_trials: 3, num_rungs: 1",
                         {"--paused"})
                .code,
            0);
  ASSERT_EQ(dtrain_.Run({"extend", "1", "--budget", "100"}).code, 0);
  ASSERT_EQ(FindTrials(1).size(), 3u);
  ASSERT_EQ(dtrain_.Run({"extend", "1", "--max-trials", "+1"}).code, 0);
  EXPECT_EQ(FindTrials(1).size(), 4u);
  const json config = dtrain_.Run({"config", "1", "--json"}).Json();
  EXPECT_EQ(config["searcher"]["budget"], json({{"epochs", 100}}));
  ExpectHealthy();

  const CliResult spent = CreateSearch(
      "name: bayesian_asha, max_trials: 2, num_rungs: 1, budget: {epochs: 18}");
  ASSERT_EQ(spent.code, 0);
  const CliResult none = dtrain_.Run({"extend", "2", "--max-trials", "+1"});
  EXPECT_EQ(none.code, 0);
  EXPECT_THAT(none.err, HasSubstr("the budget of the search is spent"));
}

// What a run cannot have is refused, and an ERROR that no trial has caused.
TEST_F(ExtendTest, SaysWhatDoesNotHelp) {
  dtrain_.Write("wait", "");
  ASSERT_EQ(CreateSearch("name: random, max_trials: 2", {"-d"}).code, 0);
  const CliResult running =
      dtrain_.Run({"extend", "1", "--max-trials", "+1", "--require", "loss<1"});
  EXPECT_EQ(running.code, 2);
  EXPECT_THAT(running.err, HasSubstr("'dtrain wait 1'"));
  std::filesystem::remove(dtrain_.directory() / "wait");
  EXPECT_EQ(dtrain_.Run({"wait", "1"}).code, 0);
  EXPECT_EQ(FindTrials(1).size(), 2u);

  dtrain_.Write("nan.sh",
                "echo '{\"type\":\"validation\",\"batches\":1,\"metrics\":"
                "{\"loss\":\"NaN\"}}' >&3\n");
  dtrain_.Write("nan.yaml",
                "entrypoint: sh nan.sh\n"
                "hyperparameters: {lr: {type: double, minval: 0, maxval: 1}}\n"
                "searcher: {name: random, metric: loss, max_trials: 2}\n"
                "resources: {slots: cpu}\n");
  EXPECT_EQ(dtrain_.Run({"create", "nan.yaml"}).code, 1);
  const CliResult failed = dtrain_.Run({"resume", "2", "--failed"});
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.err, HasSubstr("but no trial of it is: no trial has a "
                                    "finite 'loss'"));
  EXPECT_THAT(failed.err, HasSubstr("'dtrain create --from 2'"));
}

// Each in one line, and nothing is recorded.
TEST_F(ExtendTest, RefusesWhatCannotGoOn) {
  ASSERT_EQ(CreateSearch("name: random, max_trials: 2").code, 0);
  ASSERT_EQ(CreateSearch("name: single").code, 0);
  ASSERT_EQ(
      CreateSearch("name: grid", {"--set", "hyperparameters.lr.count=2"}).code,
      0);
  ASSERT_EQ(
      CreateSearch("name: bayesian_asha, max_trials: 3, budget: {epochs: 9}")
          .code,
      0);
  dtrain_.Write("limit", "-1");
  ASSERT_NE(CreateSearch("name: random, max_trials: 3").code, 0);
  ASSERT_EQ(CreateSearch("name: random, max_trials: 3", {"--paused"}).code, 0);
  ASSERT_EQ(dtrain_.Run({"cancel", "6"}).code, 0);
  struct Case {
    std::vector<std::string> words;
    int code;
    std::string error;
  };
  const Case cases[] = {
      {{"extend", "1"}, 2, "--max-trials N or +N"},
      {{"extend", "1", "--max-trials", "2"}, 2, "the search has 2 already"},
      {{"extend", "1", "--max-trials", "1"}, 2, "give a larger total"},
      {{"extend", "1", "--max-trials", "+0"}, 2, "is not a number above 0"},
      {{"extend", "1", "--max-trials", "-3"}, 2, "is not a number above 0"},
      {{"extend", "1", "--max-trials", "4.5"}, 2, "is not a number above 0"},
      {{"extend", "1", "--max-trials", "2000000"}, 2, "1000000"},
      {{"extend", "1", "--max-trials", "9223372036854775807"}, 2, "1000000"},
      {{"extend", "1", "--budget", "8h"}, 2, "only bayesian_asha"},
      {{"extend", "2", "--max-trials", "4"}, 2, "dtrain continue 2"},
      {{"extend", "3", "--max-trials", "4"}, 2, "dtrain rerun 3.1"},
      {{"extend", "4", "--max-trials", "4"}, 2, "give --budget, too"},
      {{"extend", "4", "--budget", "9"}, 2, "the search has 9 already"},
      {{"extend", "4", "--budget", "many"}, 2, "is not a number above 0"},
      {{"extend", "5", "--max-trials", "4"}, 1, "dtrain resume 5 --failed"},
      {{"extend", "6", "--max-trials", "4"}, 1, "CANCELED"},
      {{"extend", "9", "--max-trials", "4"}, 3, "no experiment 9"},
      {{"extend", "1.1", "--max-trials", "4"}, 2, "1.1"},
      {{"set", "max-trials", "1", "4"}, 1, "dtrain extend 1 --max-trials 4"},
      {{"set", "max-trials", "2", "4"}, 2, "no number of trials"},
      {{"resume", "6", "--failed"}, 1, "CANCELED"},
      {{"resume", "5"}, 1, "dtrain resume 5 --failed"},
  };
  const std::string list = dtrain_.Run({"list", "-a", "--json"}).out;
  for (const Case& refused : cases) {
    const CliResult result = dtrain_.Run(refused.words);
    EXPECT_EQ(result.code, refused.code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(refused.error));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  }
  // Without the files of an experiment nothing can run.
  std::filesystem::remove_all(StoreLayout(dtrain_.store()).Context(1));
  EXPECT_NE(dtrain_.Run({"extend", "1", "--max-trials", "4"}).code, 0);
  EXPECT_EQ(dtrain_.Run({"list", "-a", "--json"}).out, list);
}

}  // namespace
}  // namespace dtrain

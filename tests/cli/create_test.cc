// `create` with real trials.

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/fault_yaml.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class CreateTest : public testing::Test {
 protected:
  CliResult Create(const std::string& yaml,
                   std::vector<std::string> options = {},
                   const CliCall& call = {}) const {
    dtrain_.Write("fault.yaml", yaml);
    options.insert(options.begin(), {"create", "fault.yaml"});
    return dtrain_.Run(options, call);
  }
  // Whether any file in the store holds `text`.
  bool StoreHolds(const std::string& text) const {
    namespace fs = std::filesystem;
    for (const auto& entry :
         fs::recursive_directory_iterator(dtrain_.store())) {
      if (!entry.is_regular_file()) continue;
      std::ostringstream content;
      content << std::ifstream(entry.path()).rdbuf();
      if (content.str().find(text) != std::string::npos) return true;
    }
    return false;
  }

  CliRunner dtrain_;
};

TEST_F(CreateTest, RunsToTheBestTrial) {
  const CliResult result = Create(FaultYaml("x: 0.3", 100), {"--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json document = result.Json();
  EXPECT_EQ(document["experiment"], 1);
  EXPECT_EQ(document["state"], "COMPLETED");
  EXPECT_EQ(document["best"]["trial"], "1.1");
  EXPECT_EQ(document["best"]["metric"], "loss");
  EXPECT_DOUBLE_EQ(document["best"]["value"], 0.5);
  EXPECT_EQ(document["best"]["hparams"]["x"], 0.3);
  EXPECT_TRUE(document["best"]["checkpoint"].is_string());
}

TEST_F(CreateTest, PrintsFactsOnStdoutAndTheRestOnStderr) {
  const CliResult result = Create(FaultYaml("x: 0.3", 100));
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("experiment 1 completed after "),
                    HasSubstr("best trial 1.1: loss 0.5 at batch 100\n"),
                    HasSubstr("dtrain trials 1")));
  EXPECT_THAT(result.err, AllOf(HasSubstr("experiment 1 'fault': single"),
                                HasSubstr("1.1 started: x=0.3\n"),
                                HasSubstr("1.1 validation at batch 20"),
                                Not(HasSubstr("\x1b"))));
}

// Trials whose first validation is their best: the loss falls, and a greater
// one is better.
class BestModelTest : public CreateTest {
 protected:
  CliResult Train(const std::string& rest = "") const {
    return Create(FaultYaml("x: 0.3, step_ms: 1", 60, rest),
                  {"--set", "searcher.smaller_is_better=false", "--jsonl"});
  }
  // The batches at which checkpoints were made, in their order.
  static std::vector<int> Made(const CliResult& result) {
    std::vector<int> batches;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      const json event = json::parse(line);
      if (event.value("event", "") != "checkpoint") continue;
      batches.push_back(event.at("batches"));
    }
    return batches;
  }
  // The batches of the checkpoints that are kept.
  std::vector<int> Kept() const {
    std::vector<int> batches;
    const json document = dtrain_.Run({"checkpoints", "1", "--json"}).Json();
    for (const json& row : document.at("checkpoints")) {
      batches.push_back(row.at("batches"));
    }
    return batches;
  }
};

TEST_F(BestModelTest, IsSavedByDefault) {
  const CliResult result = Train();
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(Made(result), ElementsAre(20, 60));
  EXPECT_THAT(Kept(), ElementsAre(20, 60));
  const json best = dtrain_.Run({"best", "1", "--json"}).Json()["best"][0];
  EXPECT_EQ(best["batches"], 20);
  EXPECT_TRUE(best["checkpoint"].is_string());
  EXPECT_EQ(best["best_saved"]["checkpoint"], best["checkpoint"]);
}

TEST_F(BestModelTest, IsSavedBeforeEarlyStopping) {
  const CliResult result = Train("early_stopping: {patience: 1}\n");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(Kept(), ElementsAre(20, 40));
}

TEST_F(BestModelTest, IsAmongAllSavedCheckpoints) {
  const CliResult result = Train("checkpoint_policy: all\n");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(Kept(), ElementsAre(20, 40, 60));
}

TEST_F(BestModelTest, IsTheInitialModelIfTrainingMakesItWorse) {
  const CliResult result = Train("perform_initial_validation: true\n");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(Kept(), ElementsAre(0, 60));
}

TEST_F(BestModelTest, IsReportedWithoutACheckpointIfNoneWasSaved) {
  ASSERT_EQ(Train("checkpoint_policy: none\nmin_checkpoint_period: 30\n").code,
            0);
  const CliResult result = dtrain_.Run({"best", "1", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json best = result.Json()["best"][0];
  EXPECT_EQ(best["batches"], 20);
  EXPECT_EQ(best["checkpoint"], nullptr);
  EXPECT_EQ(best["best_saved"], nullptr);
  EXPECT_THAT(
      result.err,
      HasSubstr("note: trial 1.1: its best validation (loss 0.833333 at "
                "batch 20) has no checkpoint; no other validation has "
                "one either"));
}

TEST_F(BestModelTest, SurvivesACrash) {
  const CliResult result = Create(FaultYaml("x: 0.3, crash_at: 45", 60),
                                  {"--set", "searcher.smaller_is_better=false",
                                   "--set", "max_restarts=1", "--jsonl"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(Made(result), ElementsAre(20, 60));
  EXPECT_EQ(
      dtrain_.Run({"trials", "1", "--json"}).Json()["trials"][0]["restarts"],
      1);
}

TEST_F(BestModelTest, IsSavedForEachTrialOfASearch) {
  const CliResult result =
      Create(SearchYaml("name: asha, max_trials: 6, num_rungs: 2, divisor: 2, "
                        "max_length: 24, max_concurrent_trials: 2, "
                        "smaller_is_better: false") +
                 "min_validation_period: 4\n",
             {"--jsonl"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json document = dtrain_.Run({"trials", "1", "--json"}).Json();
  ASSERT_EQ(document["trials"].size(), 6u);
  for (const json& trial : document["trials"]) {
    EXPECT_EQ(trial["best"]["batches"], 4);
    EXPECT_TRUE(trial["best"]["checkpoint"].is_string()) << trial;
  }
}

// Trains digits for `batches` batches, of which an epoch has four, with these
// hyperparameters more.
std::string DigitsYaml(const std::string& hparams, int batches) {
  return "entrypoint: digits:LeNetTrial\n"
         "hyperparameters: {dataset: strokes, training_samples: 64, "
         "global_batch_size: 16, " +
         hparams +
         "}\n"
         "searcher: {name: single, metric: val_loss, max_length: " +
         std::to_string(batches) +
         "}\n"
         "scheduling_unit: 1\nmax_restarts: 0\nresources: {slots: cpu}\n";
}

// One test, for the digits are drawn once.
TEST_F(CreateTest, AppliesScheduleAndOptimizerOptionsLikePyTorch) {
  const CliResult exponential =
      Create(DigitsYaml("lr: 0.1, schedule: exponential, gamma: 0.5", 9));
  ASSERT_EQ(exponential.code, 0) << exponential.err;
  const json metrics =
      dtrain_
          .Run({"metrics", "1", "--kind", "training", "--name", "lr", "--json"})
          .Json();
  std::vector<double> rates;
  for (const json& row : metrics["metrics"]) rates.push_back(row["value"]);
  EXPECT_EQ(rates, (std::vector<double>{0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05,
                                        0.05, 0.025}));

  EXPECT_EQ(
      Create(DigitsYaml("schedule: plateau, plateau_metric: val_auc", 4)).code,
      1);
  EXPECT_THAT(dtrain_.Run({"logs", "2"}).out,
              HasSubstr("follows the metric 'val_auc', which was not reported; "
                        "set plateau_metric to one of: "));

  EXPECT_EQ(Create(DigitsYaml("nesterov: true, dampening: 0.5", 4)).code, 1);
  EXPECT_THAT(dtrain_.Run({"logs", "3"}).out,
              HasSubstr("'nesterov' needs 'momentum' above 0 and 'dampening' "
                        "0"));
  EXPECT_EQ(Create(DigitsYaml("optimizer: adam, lr: 0.001, amsgrad: true, "
                              "betas: [0.8, 0.95], eps: 0.0001",
                              4))
                .code,
            0);
}

TEST_F(CreateTest, SummarizesASearch) {
  const CliResult result =
      Create(SearchYaml("name: asha, max_trials: 4, num_rungs: 2, divisor: 2, "
                        "max_length: 18, max_concurrent_trials: 2"));
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("\n4 trials: "), HasSubstr(" completed, "),
                    HasSubstr(" stopped\nbest trial 1.")));
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("1.4 started: "), HasSubstr("its slot is released"),
            HasSubstr("(best so far)"),
            HasSubstr(" not promoted further, and stopped")));
}

TEST_F(CreateTest, PrintsOnlyFactsWithQuiet) {
  const CliResult result = Create(FaultYaml("", 20), {"-q"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
}

TEST_F(CreateTest, StreamsEventsAsJsonLines) {
  const CliResult result = Create(FaultYaml("", 40), {"--jsonl"});
  EXPECT_EQ(result.code, 0);
  std::vector<std::string> events;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    events.push_back(json::parse(line)["event"]);
  }
  EXPECT_EQ(events.front(), "begin");
  EXPECT_EQ(events.back(), "end");
  EXPECT_THAT(events,
              testing::IsSupersetOf({"trial_started", "training", "validation",
                                     "checkpoint", "trial_ended"}));
}

TEST_F(CreateTest, SurvivesAClosedEventPipe) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 5", 40));
  const CliResult result = dtrain_.RunProgram(
      {"bash", "-c",
       "dtrain create fault.yaml -q --jsonl | true; exit ${PIPESTATUS[0]}"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
}

TEST_F(CreateTest, NamesAMisspeltRequirementAtTheFirstValidation) {
  const CliResult result =
      Create(FaultYaml("x: 0.3", 100), {"--require", "losss<1"});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err,
              HasSubstr("warning: --require 'losss<1': the first validation "
                        "has no 'losss', only "));
  EXPECT_THAT(result.err, HasSubstr("; did you mean 'loss'?\n"));
  EXPECT_LT(result.err.find("warning: --require"),
            result.err.find("1.1 completed"));
}

TEST_F(CreateTest, NamesUnmetRequirements) {
  const CliResult result =
      Create(FaultYaml("x: 0.3", 100),
             {"--require", "loss<=0.5 and acc>=0.9", "--json"});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err,
              HasSubstr("dtrain: error: experiment 1: requirement not met: "
                        "acc>=0.9 (actual: 0.5)\n"));
  EXPECT_EQ(result.Json()["requirements"][0]["met"], true);
}

TEST_F(CreateTest, ShowsWhyATrialFailed) {
  const CliResult result =
      Create(FaultYaml("crash_at: 30, exit_code: 3, log_hex: 1b5b324a0a", 100));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("1.1 failed: "), HasSubstr("\n\\x1b[2J\n"),
                    HasSubstr("dtrain: error: experiment 1 is "
                              "ERROR"),
                    Not(HasSubstr("\x1b"))));
  EXPECT_EQ(dtrain_.Run({"wait", "1"}).code, 1);
}

TEST_F(CreateTest, PassesTheTrainersVariablesToTrials) {
  const CliResult steps = Create(
      FaultYaml("", 20), {}, {.environment = {{"DTRAIN_GRAPH_STEPS", "x"}}});
  EXPECT_EQ(steps.code, 1);
  EXPECT_THAT(
      steps.err,
      HasSubstr(
          "1.1 failed: configuration: DTRAIN_GRAPH_STEPS is 'x'; set it to a "
          "number from 1 to 64, or unset it"));
  const CliResult repeated = Create(
      FaultYaml("", 20), {}, {.environment = {{"DTRAIN_REPEAT_BATCH", "1"}}});
  EXPECT_EQ(repeated.code, 0) << repeated.err;
  EXPECT_THAT(repeated.err,
              HasSubstr("DTRAIN_REPEAT_BATCH is 1: every step trains on the "
                        "first batch, which measures speed only"));
}

TEST_F(CreateTest, PausesAtItsTimeLimit) {
  const CliResult result =
      Create(FaultYaml("step_ms: 10", 1'000'000), {"--timeout", "500ms"});
  EXPECT_EQ(result.code, 124) << result.err;
  EXPECT_THAT(result.err, HasSubstr("resume with: dtrain resume 1"));
  EXPECT_EQ(dtrain_.Run({"wait", "1"}).code, 75);
}

TEST_F(CreateTest, RunsInTheBackground) {
  const CliResult result = Create(FaultYaml("", 40), {"-d"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "1\n");
  EXPECT_EQ(dtrain_.Run({"wait", "1", "--timeout", "1m"}).code, 0);
  EXPECT_EQ(dtrain_.Run({"logs", "1", "-f"}).code, 0);
}

TEST_F(CreateTest, WritesAJunitReport) {
  const CliResult result =
      Create(FaultYaml("", 20),
             {"--name", "<&\x1b>", "--require", "loss<0", "--junit", "r.xml"});
  EXPECT_EQ(result.code, 4) << result.err;
  const CliResult read = dtrain_.RunProgram(
      {"python3", "-c",
       "import xml.etree.ElementTree as t; s = t.parse('r.xml').getroot()[0];"
       "print(s.get('tests'), s.get('failures'), s[0].get('name'))"});
  EXPECT_EQ(read.out, "2 1 trial 1.1\n") << read.err;
}

TEST_F(CreateTest, RecordsATrialsProfile) {
  const std::string yaml =
      "entrypoint: digits:LeNetTrial\n"
      "hyperparameters: {global_batch_size: 32}\n"
      "searcher: {name: single, metric: val_loss, max_length: {batches: 20}}\n"
      "scheduling_unit: 5\n";
  ASSERT_EQ(Create(yaml + "profiling: {enabled: true}\n").code, 0);
  ASSERT_EQ(Create(yaml).code, 0);

  const json profile =
      dtrain_.Run({"describe", "1.1", "--json"}).Json().at("profile");
  EXPECT_EQ(profile.at("batches"), 20);
  EXPECT_GT(profile.at("samples_per_second"), 0);
  EXPECT_GT(profile.at("peak_memory_bytes"), 10'000'000);
  for (const char* phase : {"data", "forward", "backward", "optimizer",
                            "validation", "checkpoint"}) {
    EXPECT_GT(profile.at("phases").at(phase).at("seconds"), 0) << phase;
  }
  EXPECT_THAT(dtrain_.Run({"describe", "1.1"}).out,
              HasSubstr("time by phase, 20 batches"));
  EXPECT_TRUE(dtrain_.Run({"describe", "2.1", "--json"})
                  .Json()
                  .at("profile")
                  .is_null());
}

TEST_F(CreateTest, RecordsNoSecrets) {
  const CliResult result =
      Create(FaultYaml("", 20,
                       "environment:\n"
                       "  environment_variables: {TOKEN: canary-in-yaml}\n"),
             {"--set", "environment.environment_variables.T2=canary-in-set"},
             {.environment = {{"SECRET", "canary-in-environment"}}});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_FALSE(StoreHolds("canary-in"));
  EXPECT_TRUE(StoreHolds("fault.yaml"));
}

TEST_F(CreateTest, MakesAPrivateStore) {
  dtrain_.Write("fault.yaml", FaultYaml("", 20));
  const CliResult result =
      dtrain_.RunProgram({"sh", "-c",
                          "umask 000; dtrain create fault.yaml -q >out && "
                          "find store -perm /077"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "");
}

TEST_F(CreateTest, TreatsNamesAsText) {
  const std::string name = "../../x$(touch canary); touch canary\n-rf";
  const CliResult result =
      Create(FaultYaml("", 20), {"--name", name, "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.Json()["name"], name);
  EXPECT_FALSE(std::filesystem::exists(dtrain_.directory() / "canary"));
  EXPECT_TRUE(
      std::filesystem::exists(dtrain_.store() / "experiments/1/trials/1"));
}

TEST_F(CreateTest, RecordsItsProvenance) {
  ASSERT_EQ(Create(FaultYaml("", 20), {"--label", "x"}).code, 0);
  const json from =
      dtrain_.Run({"describe", "1", "--json"}).Json()["provenance"];
  EXPECT_EQ(from["argv"][1], "create");
  EXPECT_EQ(from["argv"][4], "x");
  EXPECT_EQ(from["cwd"], dtrain_.directory().string());
  EXPECT_EQ(from["git"], nullptr);
  EXPECT_TRUE(from["host"].is_string());
  EXPECT_TRUE(from["libraries"].contains("libtorch"));
  EXPECT_GE(from["cpu"]["count"], 1);
}

TEST_F(CreateTest, RecordsTheCommitOfTheConfiguration) {
  dtrain_.Write("fault.yaml", FaultYaml("", 20));
  const CliResult made = dtrain_.RunProgram(
      {"sh", "-c",
       "git init -q . && git add fault.yaml && git -c user.name=a -c "
       "user.email=b commit -q -m c && echo '# more' >>fault.yaml && "
       "dtrain create fault.yaml -q && git rev-parse HEAD"});
  ASSERT_EQ(made.code, 0) << made.err;
  const json git =
      dtrain_.Run({"describe", "1", "--json"}).Json()["provenance"]["git"];
  EXPECT_THAT(made.out, HasSubstr(git["commit"].get<std::string>() + "\n"));
  EXPECT_EQ(git["dirty"], true);
}

// https://nvd.nist.gov/vuln/detail/CVE-2022-24765 of git.
// Runs a shell command that finds its store by the working directory.
CliResult ShellWithoutStore(const CliRunner& dtrain,
                            const std::string& command) {
  return dtrain.RunProgram({"env", "-u", "DTRAIN_STORE", "sh", "-c", command});
}

TEST_F(CreateTest, RefusesAStoreThatOthersCanWrite) {
  namespace fs = std::filesystem;
  dtrain_.Write("run.yaml", FaultYaml("x: 1", 10));
  const auto shell = std::bind_front(ShellWithoutStore, std::cref(dtrain_));
  const auto all = fs::perms::all;
  ASSERT_EQ(shell("mkdir -p .dtrain a/b && chmod 777 .dtrain").code, 0);
  const CliResult here = shell("dtrain create run.yaml");
  EXPECT_EQ(here.code, 5);
  EXPECT_THAT(here.err,
              AllOf(HasSubstr("other users can write to "),
                    HasSubstr("chmod go-w "), HasSubstr("--store .dtrain")));
  const CliResult below = shell("cd a/b && dtrain create ../../run.yaml");
  EXPECT_EQ(below.code, 0) << below.err;
  EXPECT_THAT(below.err, HasSubstr("warning: skipped "));
  EXPECT_TRUE(fs::exists(dtrain_.directory() / "a/b/.dtrain/dtrain.db"));
  EXPECT_EQ(fs::status(dtrain_.directory() / ".dtrain").permissions(), all);
  EXPECT_TRUE(fs::is_empty(dtrain_.directory() / ".dtrain"));

  const CliResult found = shell(
      "mkdir a/b/c; cd a/b/c && dtrain create "
      "../../../run.yaml");
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_THAT(found.err,
              HasSubstr("the experiment is recorded in the store " +
                        dtrain_.directory().string() + "/a/b/.dtrain"));
  if (::geteuid() != 0) return;  // only root can change the owner
  ASSERT_EQ(shell("chmod 700 .dtrain && chown 65534 .dtrain").code, 0);
  EXPECT_EQ(shell("dtrain create run.yaml").code, 5);
  EXPECT_EQ(shell("SUDO_UID=65534 dtrain create run.yaml").code, 0);
  // Another user's link to the store, and a database that others can write to.
  const CliResult link = shell(
      "mkdir -p l && cd l && ln -s ../a/b/.dtrain .dtrain && "
      "chown -h 65534 .dtrain && dtrain create ../run.yaml");
  EXPECT_EQ(link.code, 5);
  EXPECT_THAT(link.err, HasSubstr("is a link owned by another user"));
  const CliResult database =
      shell("cd a/b && chmod 666 .dtrain/dtrain.db && dtrain list");
  EXPECT_EQ(database.code, 5);
  EXPECT_THAT(database.err, HasSubstr("dtrain.db (chmod go-w "));
}

// git would execute it: https://git-scm.com/docs/git-config, core.fsmonitor.
TEST_F(CreateTest, ExecutesNoProgramsOfTheRepository) {
  const CliResult made = dtrain_.RunProgram(
      {"sh", "-c",
       "mkdir theirs && cd theirs && git init -q && echo x > f && git add f && "
       "git -c user.name=a -c user.email=b commit -qm c && git pack-refs --all "
       "&& printf '#!/bin/sh\\ntouch executed\\n' > monitor && "
       "chmod +x monitor && git config core.fsmonitor ./monitor && "
       "git rev-parse HEAD"});
  ASSERT_EQ(made.code, 0) << made.err;
  (void)dtrain_.RunProgram({"rm", "-f", "theirs/executed"});
  dtrain_.Write("theirs/run.yaml", FaultYaml("x: 1", 10));
  ASSERT_EQ(dtrain_.Run({"create", "theirs/run.yaml"}).code, 0);
  const json git =
      dtrain_.Run({"describe", "1", "--json"}).Json()["provenance"]["git"];
  EXPECT_EQ(git["commit"].get<std::string>() + "\n", made.out);
  EXPECT_EQ(git["dirty"], nullptr);
  EXPECT_FALSE(
      std::filesystem::exists(dtrain_.directory() / "theirs/executed"));
}

TEST_F(CreateTest, DrawsOnATerminalAndRestoresIt) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 10", 100));
  const CliResult result = dtrain_.RunProgram(
      {"script", "-qec", "stty cols 70 rows 20; dtrain create fault.yaml",
       "/dev/null"},
      {.environment = {{"TERM", "xterm"}}});
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out, AllOf(HasSubstr("\x1b[?25l"), HasSubstr("[#"),
                                HasSubstr("  1.1  epoch "), HasSubstr("/100")));
  EXPECT_GT(result.out.rfind("\x1b[?25h"), result.out.rfind("\x1b[?25l"));
}

// `dtrain create --test`.

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
      "{dataset: strokes, global_batch_size: 16, nesterov: true, momentum: 0}",
      {"--json"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.Json()["passed"], false);
  EXPECT_THAT(result.err, HasSubstr("the test failed: "));
  EXPECT_THAT(result.err, HasSubstr("'nesterov' needs 'momentum' above 0"));

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

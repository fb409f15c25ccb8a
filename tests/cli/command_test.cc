// Commands as trials: the examples, and what becomes of a run of them.

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include <linux/sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/old_kernel.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

std::string ReadContents(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

class CommandTest : public testing::Test {
 protected:
  static std::string Example(const std::string& name) {
    return std::string(DTRAIN_CONFIGS_DIR) + "/" + name;
  }
  json Trials() const {
    return dtrain_.Run({"trials", "1", "--json"}).Json().at("trials");
  }
  // The programs know nothing of where Python keeps what it compiled.
  const CliCall call_{.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}}};
  CliRunner dtrain_;
};

TEST_F(CommandTest, DocumentQuotesTheExamples) {
  const std::string document =
      ReadContents(fs::path(DTRAIN_SOURCE_DIR) / "docs" / "protocol.md");
  for (const char* name : {"train.py", "torch_train.py", "newton.sh"}) {
    EXPECT_THAT(document, HasSubstr(ReadContents(Example("command/") + name)));
  }
}

TEST_F(CommandTest, PythonExampleLearns) {
  const CliResult result =
      dtrain_.Run({"create", Example("command.yaml"), "--json"}, call_);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_GE(result.Json()["best"]["value"], 0.9);
  EXPECT_EQ(result.Json()["state"], "COMPLETED");
  const json training =
      dtrain_.Run({"metrics", "1.1", "--kind", "training", "--json"}).Json();
  EXPECT_EQ(training["metrics"].size(), 20u);
  EXPECT_EQ(dtrain_.Run({"checkpoint", "verify"}).code, 0);
  const json described = dtrain_.Run({"describe", "1", "--json"}).Json();
  EXPECT_EQ(described["entrypoint"], "python3 command/train.py");
}

TEST_F(CommandTest, PythonExampleIsSearched) {
  const CliResult result = dtrain_.Run(
      {"create", Example("command_asha.yaml"), "--slots", "cpu:2"}, call_);
  ASSERT_EQ(result.code, 0) << result.err;
  std::vector<int> rungs(4);
  for (const json& trial : Trials()) {
    ++rungs.at(trial["rung"]);
    EXPECT_EQ(trial["restarts"], 0);
  }
  EXPECT_EQ(rungs[0], 0);
  EXPECT_GE(rungs[3], 1);
}

TEST_F(CommandTest, ShellExampleIsSearchedByAGrid) {
  const CliResult result =
      dtrain_.Run({"create", Example("command_shell.yaml"), "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_LT(result.Json()["best"]["value"], 1e-12);
  EXPECT_EQ(result.Json()["best"]["hparams"]["damping"], 1);
}

TEST_F(CommandTest, PyTorchExampleLearns) {
  if (dtrain_.RunProgram({"python3", "-c", "import torch"}).code != 0) {
    GTEST_SKIP() << "python3 has no torch";
  }
  const CliResult result = dtrain_.Run(
      {"create", Example("command_torch.yaml"), "--slots", "cpu", "--json"},
      call_);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_LT(result.Json()["best"]["value"], 0.6);
}

// The map of hyperparameters is never a range, even with names like "type".
TEST_F(CommandTest, ResumesWithAHyperparameterNamedType) {
  const CliResult stopped = dtrain_.Run(
      {"create", Example("command.yaml"), "--set", "hyperparameters.type=sgd",
       "--set", "hyperparameters.vals=[1, 2]", "--set",
       "searcher.max_length=60000"},
      {.environment = call_.environment,
       .signal_when = "1.1 started",
       .signal = SIGINT});
  ASSERT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_EQ(Trials()[0]["hparams"]["type"], "sgd");

  const CliResult config = dtrain_.Run({"config", "1"});
  dtrain_.Write("again.yaml", config.out);
  const CliResult valid =
      dtrain_.Run({"validate", "again.yaml", "--keys", "--json"});
  ASSERT_EQ(valid.code, 0) << valid.err;
  EXPECT_EQ(valid.Json()["config"]["hyperparameters"]["type"], "sgd");

  const CliResult resumed = dtrain_.Run({"resume", "1"}, call_);
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(dtrain_.Run({"reproduce", "1.1"}, call_).code, 0);
}

TEST_F(CommandTest, PauseAndResumeGiveTheSameResult) {
  const std::vector<std::string> create = {"create",
                                           Example("command.yaml"),
                                           "--set",
                                           "reproducibility="
                                           "{experiment_seed: 3}",
                                           "--set",
                                           "searcher.max_length=60000"};
  const CliResult stopped =
      dtrain_.Run(create, {.environment = call_.environment,
                           .signal_when = "1.1 started",
                           .signal = SIGINT});
  ASSERT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_EQ(Trials()[0]["state"], "PAUSED");
  EXPECT_LT(Trials()[0]["batches"], 60000);
  const CliResult resumed = dtrain_.Run({"resume", "1", "--json"}, call_);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(Trials()[0]["runs"], 2);
  EXPECT_EQ(Trials()[0]["restarts"], 0);

  std::vector<std::string> again = create;
  again.emplace_back("--json");
  const CliResult whole = dtrain_.Run(again, call_);

  EXPECT_EQ(whole.Json()["best"]["value"], resumed.Json()["best"]["value"]);
  const auto weights = [&](const json& result) {
    const std::string uuid = result["best"]["checkpoint"];
    const json shown =
        dtrain_.Run({"checkpoint", "show", uuid, "--json"}).Json();
    return shown["files"]["files/state.json"];
  };
  EXPECT_EQ(weights(whole.Json()), weights(resumed.Json()));
}

TEST_F(CommandTest, OnlyTheCommandReadsItsCheckpoints) {
  ASSERT_EQ(dtrain_.Run({"create", Example("command_shell.yaml")}).code, 0);
  const std::string uuid = dtrain_.Run({"checkpoints", "1", "--json"})
                               .Json()["checkpoints"][0]["uuid"];
  for (const std::vector<std::string>& use :
       {std::vector<std::string>{"evaluate", uuid},
        {"predict", uuid},
        {"checkpoint", "export", uuid, "--to", "safetensors"}}) {
    const CliResult result = dtrain_.Run(use);
    EXPECT_NE(result.code, 0);
    EXPECT_THAT(result.err, HasSubstr("only that program can read it"))
        << use[0];
  }
}

TEST_F(CommandTest, ReportsMissingProgramsBeforeCreatingAnything) {
  dtrain_.Write("plain.txt", "");
  const std::string yaml = Example("command.yaml");
  const auto refusal = [&](const std::string& entrypoint) {
    const CliResult result =
        dtrain_.Run({"create", yaml, dtrain_.directory().string(), "--set",
                     "entrypoint=" + entrypoint});
    EXPECT_EQ(result.code, 2) << entrypoint;
    EXPECT_FALSE(fs::exists(dtrain_.store())) << entrypoint;
    return result.err;
  };
  EXPECT_THAT(refusal("no-such-program x"),
              HasSubstr("entrypoint: there is no program 'no-such-program' in "
                        "PATH"));
  EXPECT_THAT(refusal("./none.sh"), HasSubstr("there is no such file"));
  EXPECT_THAT(refusal("./plain.txt"), HasSubstr("chmod +x"));
}

TEST_F(CommandTest, WarnsOfKeysThatACommandIgnores) {
  const CliResult result =
      dtrain_.Run({"create", Example("command.yaml"), "--dry-run", "--set",
                   "optimizations={sink_size: 5, aggregation_frequency: 2}"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err,
              HasSubstr("optimizations.sink_size: warning: has no effect on a "
                        "program"));
  EXPECT_THAT(result.err, HasSubstr("optimizations.aggregation_frequency: "
                                    "warning: has no effect"));
}

TEST_F(CommandTest, RunsInItsCopyOfTheFiles) {
  dtrain_.Write("sub.txt", "");
  fs::create_directories(dtrain_.directory() / "here");
  const auto script = dtrain_.Write(
      "here/run.sh",
      "#!/bin/sh\npwd; echo \"$GREETING\"\nprintf '{\"type\":\"validation\","
      "\"batches\":1,\"metrics\":{\"loss\":1}}\\n' >&3\n");
  fs::permissions(script, fs::perms::owner_all);
  dtrain_.Write("here/run.yaml",
                "entrypoint: ./run.sh\n"
                "searcher: {name: single, metric: loss, max_length: 1}\n"
                "environment: {environment_variables: {GREETING: hello}}\n"
                "resources: {slots: cpu}\n");
  const CliResult result = dtrain_.Run({"create", "here/run.yaml"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(dtrain_.Run({"logs", "1"}).out,
              HasSubstr("experiments/1/trials/1/work\n1.1 | hello"));
}

class PrintedLinesTest : public CommandTest {
 protected:
  std::string Yaml(const std::string& searcher) const {
    fs::create_directories(dtrain_.directory() / "program");
    const auto script = dtrain_.Write(
        "program/run.sh",
        "#!/bin/sh\necho \"hello $DTRAIN_HPARAM_lr\"\n"
        "printf 'old\\rnew\\033[2J\\n' >&2\n"
        "printf '{\"type\":\"validation\",\"batches\":1,\"metrics\":"
        "{\"loss\":1}}\\n' >&3\n");
    fs::permissions(script, fs::perms::owner_all);
    dtrain_.Write("program/run.yaml",
                  "entrypoint: ./run.sh\n"
                  "hyperparameters: {lr: {type: categorical, vals: [1, 2]}}\n"
                  "searcher: {metric: loss, max_length: 1, " +
                      searcher + "}\nresources: {slots: cpu}\n");
    return "program/run.yaml";
  }
};

TEST_F(PrintedLinesTest, AreShownForASingleTrial) {
  const CliResult result =
      dtrain_.Run({"create", Yaml("name: single"), "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("\nhello "));
  EXPECT_THAT(result.err, HasSubstr("\nnew\\x1b[2J\n"));
  // The hyperparameters that a program reads are unknown.
  EXPECT_EQ(result.Json()["unread_hyperparameters"], nullptr);
  EXPECT_EQ(result.Json()["state"], "COMPLETED");
  const CliResult quiet = dtrain_.Run({"create", "program/run.yaml", "-q"});
  EXPECT_THAT(quiet.err, testing::Not(HasSubstr("hello")));
}

TEST_F(PrintedLinesTest, AreShownForAFollowedSearch) {
  const std::string yaml = Yaml("name: grid");
  EXPECT_THAT(dtrain_.Run({"create", yaml}).err,
              testing::Not(HasSubstr("hello")));
  const CliResult followed = dtrain_.Run({"create", yaml, "-f"});
  EXPECT_THAT(followed.err, HasSubstr("\n2.1 | hello 2\n"));
  EXPECT_THAT(followed.err, HasSubstr("\n2.2 | hello 1\n"));
  EXPECT_EQ(dtrain_.Run({"create", yaml, "-f", "-d"}).code, 2);
}

TEST_F(PrintedLinesTest, AreShownOnceForAFailure) {
  const std::string yaml = Yaml("name: single");
  dtrain_.Write("program/run.sh", "#!/bin/sh\necho once\nexit 3\n");
  const CliResult result =
      dtrain_.Run({"create", yaml, "--set", "max_restarts=0"});
  EXPECT_EQ(result.code, 1);
  const auto first = result.err.find("once");
  ASSERT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("once", first + 1), std::string::npos)
      << result.err;
}

TEST_F(PrintedLinesTest, AreCappedInAFlood) {
  const std::string yaml = Yaml("name: single");
  dtrain_.Write("program/run.sh",
                "#!/bin/sh\nsleep 1\nseq 1 200000 | sed 's/$/ flood/'\n"
                "printf '{\"type\":\"validation\",\"batches\":1,\"metrics\":"
                "{\"loss\":1}}\\n' >&3\n");

  const CliResult result = dtrain_.Run({"create", yaml});

  ASSERT_EQ(result.code, 0) << result.err;
  // Not all of it is printed when a test fails.
  const auto shows = [&](const std::string& text) {
    return result.err.find(text) != std::string::npos;
  };
  EXPECT_TRUE(
      shows("not all output is shown; the rest is in: dtrain logs 1\n"));
  EXPECT_TRUE(shows("\n1 flood\n"));
  EXPECT_FALSE(shows("\n200000 flood\n"));
  EXPECT_EQ(dtrain_.Run({"logs", "1", "--tail", "1"}).out,
            "1.1 | 200000 flood\n");
}

// Scripts rely on these keys: a key that was there once stays.
TEST_F(PrintedLinesTest, TheDocumentOfARunHasItsKeys) {
  const CliResult result =
      dtrain_.Run({"create", Yaml("name: grid"), "--set", "name=two", "--json",
                   "--require", "loss<2", "--require", "loss<1"});
  EXPECT_EQ(result.code, 4) << result.err;
  json document = result.Json();
  EXPECT_GT(document["duration"], 0);
  document.erase("duration");
  EXPECT_EQ(
      document,
      json({{"experiment", 1},
            {"name", "two"},
            {"state", "COMPLETED"},
            {"error", nullptr},
            {"best",
             {{"metric", "loss"},
              {"value", 1.0},
              {"batches", 1},
              {"length", 1},
              {"unit", "batches"},
              {"checkpoint", nullptr},
              {"trial", "1.1"},
              {"hparams", {{"lr", 2}}}}},
            {"unread_hyperparameters", nullptr},
            {"trials", 2},
            {"trials_by_state", {{"COMPLETED", 2}}},
            {"requirements",
             {{{"requirement", "loss<2"}, {"met", true}, {"actual", 1.0}},
              {{"requirement", "loss<1"}, {"met", false}, {"actual", 1.0}}}},
            {"store", dtrain_.store().string()}}));
}

TEST_F(PrintedLinesTest, AnExperimentIsPausedAtItsTimeLimit) {
  const std::string yaml = Yaml("name: single");
  dtrain_.Write("program/run.sh", "#!/bin/sh\nexec sleep 100\n");

  const CliResult result =
      dtrain_.Run({"create", yaml, "--set", "time_limit=500ms", "--json"},
                  {.environment = {{"DTRAIN_STOP_GRACE", "1s"}}});

  EXPECT_EQ(result.code, 124) << result.err;
  EXPECT_THAT(result.err, HasSubstr("is paused at its time limit"));
  EXPECT_EQ(result.Json()["state"], "PAUSED");
  EXPECT_EQ(dtrain_.Run({"wait", "1"}).code, 75);
}

TEST_F(CommandTest, ReasonOfAnEarlyEndIsKeptAndShown) {
  fs::create_directories(dtrain_.directory() / "program");
  const auto script = dtrain_.Write(
      "program/run.sh",
      "#!/bin/sh\nfor i in 1 2 3 4; do printf '{\"type\":\"validation\","
      "\"batches\":%d,\"metrics\":{\"loss\":1}}\\n' $i >&3; done\n"
      "read -r order <&4\n");
  fs::permissions(script, fs::perms::owner_all);
  dtrain_.Write("program/run.yaml",
                "entrypoint: ./run.sh\n"
                "searcher: {name: single, metric: loss, max_length: 100}\n"
                "early_stopping: {patience: 2}\n"
                "resources: {slots: cpu}\n");
  const CliResult result = dtrain_.Run({"create", "program/run.yaml"});
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string reason =
      "ended early: 'loss' did not improve 2 times in a row (early_stopping)";
  EXPECT_EQ(Trials()[0]["reason"], reason);
  EXPECT_THAT(result.out, HasSubstr("trial 1.1 " + reason));
  EXPECT_THAT(result.err, HasSubstr(reason));

  const CliResult wrong = dtrain_.Run(
      {"create", "program/run.yaml", "--set", "early_stopping.metric=los"});
  EXPECT_EQ(wrong.code, 1);
  const json trial =
      dtrain_.Run({"trials", "2", "--json"}).Json().at("trials")[0];
  EXPECT_EQ(trial["restarts"], 0);
  EXPECT_EQ(trial["reason"],
            "early_stopping.metric 'los' was not reported; reported: loss; "
            "set early_stopping.metric to one of these");
}

TEST_F(CommandTest, ReasonIsTheProgramsFinalMessage) {
  fs::create_directories(dtrain_.directory() / "program");
  const auto script = dtrain_.Write(
      "program/run.sh",
      "#!/bin/sh\nprintf '{\"type\":\"end\",\"reason\":\"user_stop\","
      "\"message\":\"good enough\"}\\n' >&3\n");
  fs::permissions(script, fs::perms::owner_all);
  dtrain_.Write("program/run.yaml",
                "entrypoint: ./run.sh\n"
                "searcher: {name: single, metric: loss, max_length: 100}\n"
                "resources: {slots: cpu}\n");
  EXPECT_EQ(dtrain_.Run({"create", "program/run.yaml"}).code, 0);
  EXPECT_EQ(Trials()[0]["reason"], "ended early: good enough");
}

// A program that decides its own length.
class OwnLengthTest : public CommandTest {
 protected:
  static std::string Validation(int batches, double loss) {
    return "printf '{\"type\":\"validation\",\"batches\":" +
           std::to_string(batches) +
           ",\"metrics\":{\"loss\":" + std::to_string(loss) + "}}\\n' >&3\n";
  }
  void WriteProgram(const std::string& body) const {
    const auto script = dtrain_.Write("program/run.sh", "#!/bin/sh\n" + body);
    fs::permissions(script, fs::perms::owner_all);
  }
  // The experiment of a searcher without max_length.
  std::string Yaml(const std::string& searcher) const {
    dtrain_.Write("program/run.yaml",
                  "entrypoint: ./run.sh\n"
                  "hyperparameters: {lr: {type: categorical, vals: [1, 2]}}\n"
                  "searcher: {metric: loss, " +
                      searcher + "}\nresources: {slots: cpu}\n");
    return "program/run.yaml";
  }
  void SetUp() override {
    fs::create_directories(dtrain_.directory() / "program");
    WriteProgram("echo \"until '$DTRAIN_UNTIL'\"; cat $DTRAIN_TRIAL\n" +
                 Validation(10, 3) + Validation(20, 1) + Validation(30, 2));
  }
};

TEST_F(OwnLengthTest, LastReportIsTheResultAndTheBestIsTheBest) {
  const CliResult result =
      dtrain_.Run({"create", Yaml("name: random, max_trials: 2"), "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.Json()["state"], "COMPLETED");
  EXPECT_EQ(result.Json()["best"]["value"], 1);
  EXPECT_EQ(result.Json()["best"]["batches"], 20);
  for (const json& trial : Trials()) {
    EXPECT_EQ(trial["state"], "COMPLETED");
    EXPECT_TRUE(trial["reason"].is_null());
    EXPECT_EQ(trial["batches"], 30);
    EXPECT_EQ(trial["latest"]["value"], 2);
    EXPECT_EQ(trial["rung"], 1);
  }
  const std::string log = dtrain_.Run({"logs", "1.1", "--raw"}).out;
  EXPECT_THAT(log, HasSubstr("until ''"));
  EXPECT_THAT(log, HasSubstr("\"until\": null"));
  EXPECT_THAT(log, HasSubstr("\"checkpoint_policy\": \"best\""));
  const json described = dtrain_.Run({"describe", "1", "--json"}).Json();
  EXPECT_EQ(described["search"]["total_length"], json());
  EXPECT_THAT(dtrain_.Run({"describe", "1"}).out,
              HasSubstr("2 trials of program-defined length"));
}

TEST_F(OwnLengthTest, IsForSingleRandomAndGridOnly) {
  for (const char* name : {"single", "random, max_trials: 2", "grid"}) {
    const CliResult valid =
        dtrain_.Run({"validate", Yaml("name: " + std::string(name))});
    EXPECT_EQ(valid.code, 0) << valid.err;
  }
  const CliResult asha = dtrain_.Run(
      {"validate", Yaml("name: asha, max_trials: 2, num_rungs: 2")});
  EXPECT_EQ(asha.code, 2);
  EXPECT_THAT(asha.err, HasSubstr("searcher.max_length: required but missing: "
                                  "async_halving compares trials at lengths"));
  const CliResult model =
      dtrain_.Run({"validate", Yaml("name: single"), "--set",
                   "entrypoint=digits:LeNetTrial"});
  EXPECT_EQ(model.code, 2);
  EXPECT_THAT(model.err, HasSubstr("searcher.max_length: required"));
  const CliResult stops =
      dtrain_.Run({"validate", Yaml("name: single, stops: [5]")});
  EXPECT_EQ(stops.code, 2);
  EXPECT_THAT(stops.err, HasSubstr("searcher.stops: are lengths before "
                                   "max_length, which is missing"));
}

TEST_F(OwnLengthTest, PlansSayThatTheProgramDecides) {
  const std::string yaml = Yaml("name: grid");
  EXPECT_THAT(dtrain_.Run({"create", yaml, "--dry-run"}).out,
              HasSubstr("up to 2 trials of program-defined length"));
  EXPECT_EQ(
      dtrain_.Run({"create", yaml, "--dry-run", "--json"}).Json()["max_length"],
      json());
  const CliResult preview = dtrain_.Run(
      {"preview-search", yaml, "--simulate", "hash", "--seed", "1"});
  EXPECT_EQ(preview.code, 0) << preview.err;
  EXPECT_THAT(preview.out, HasSubstr("length decided by the program"));
  EXPECT_THAT(preview.out, testing::Not(HasSubstr("0 batches")));
  const json plan = dtrain_.Run({"preview-search", yaml, "--json"}).Json();
  EXPECT_EQ(plan["plan"], json::parse(R"([{"trials": 2, "length": null}])"));
  EXPECT_EQ(plan["total_length"], json());
}

TEST_F(OwnLengthTest, ResumesAfterAStop) {
  WriteProgram(Validation(10, 3) +
               "echo 1 > $DTRAIN_DIRECTORY/state\n"
               "printf '{\"type\":\"checkpoint\",\"batches\":10,\"path\":"
               "\"%s\"}\\n' $DTRAIN_DIRECTORY/state >&3\n"
               "[ -z \"$DTRAIN_CHECKPOINT\" ] || exit 0\n"
               "read -r order <&4\n");
  const CliResult stopped =
      dtrain_.Run({"create", Yaml("name: single")},
                  {.signal_when = "validation at", .signal = SIGINT});
  ASSERT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_EQ(Trials()[0]["state"], "PAUSED");

  const CliResult resumed = dtrain_.Run({"resume", "1", "--json"});

  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.Json()["state"], "COMPLETED");
  EXPECT_EQ(Trials()[0]["runs"], 2);
  EXPECT_EQ(Trials()[0]["latest"]["value"], 3);
}

TEST_F(OwnLengthTest, ResumeOfAFinishedProgramKeepsItsResult) {
  WriteProgram(
      "[ -z \"$DTRAIN_CHECKPOINT\" ] || exit 0\n"
      "echo 1 > $DTRAIN_DIRECTORY/state\n"
      "printf '{\"type\":\"checkpoint\",\"batches\":10,\"path\":"
      "\"%s\"}\\n' $DTRAIN_DIRECTORY/state >&3\n" +
      Validation(10, 3) + "read -r order <&4\n");
  ASSERT_EQ(dtrain_
                .Run({"create", Yaml("name: single")},
                     {.signal_when = "validation at", .signal = SIGINT})
                .code,
            130);
  const CliResult resumed = dtrain_.Run({"resume", "1", "--json"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.Json()["state"], "COMPLETED");
  EXPECT_EQ(resumed.Json()["best"]["value"], 3);
}

TEST_F(OwnLengthTest, ReproducesAndContinues) {
  ASSERT_EQ(dtrain_.Run({"create", Yaml("name: grid")}).code, 0);
  const CliResult reproduced = dtrain_.Run({"reproduce", "1.2"});
  EXPECT_EQ(reproduced.code, 0) << reproduced.err;
  EXPECT_THAT(reproduced.out, HasSubstr("bit for bit"));
  const CliResult config = dtrain_.Run({"config", "2"});
  EXPECT_THAT(config.out, testing::Not(HasSubstr("max_length: {")));
}

TEST_F(OwnLengthTest, FailsWithoutAValidation) {
  WriteProgram("exit 0\n");
  const CliResult result =
      dtrain_.Run({"create", Yaml("name: random, max_trials: 1"), "--set",
                   "max_restarts=0"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(Trials()[0]["reason"],
            "the program ended at 0 batches without a validation of 'loss'");
}

TEST_F(OwnLengthTest, NeedsNoValidationWithoutASearch) {
  WriteProgram("exit 0\n");
  const CliResult result =
      dtrain_.Run({"create", Yaml("name: single"), "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("no best: searcher.metric 'loss' was not "
                                    "reported"));
  EXPECT_EQ(result.Json()["state"], "COMPLETED");
  EXPECT_EQ(result.Json()["best"], json());

  // As it was recorded before.
  const CliResult recorded =
      dtrain_.Run({"create", Yaml("name: single"), "--set", "max_restarts=0",
                   "--set", "rules=1"});
  EXPECT_EQ(recorded.code, 1);
  EXPECT_THAT(recorded.err, HasSubstr("without a validation of 'loss'"));
}

TEST_F(OwnLengthTest, UserStopIsAnEndLikeExit) {
  WriteProgram(Validation(10, 3) +
               "printf '{\"type\":\"end\",\"reason\":\"user_stop\"}\\n'"
               " >&3\n");
  const CliResult result = dtrain_.Run({"create", Yaml("name: single")});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Trials()[0]["state"], "COMPLETED");
  EXPECT_EQ(Trials()[0]["rung"], 1);
}

TEST_F(OwnLengthTest, IsTestedUpToItsFirstValidation) {
  WriteProgram(Validation(10, 3) + "read -r order <&4\necho \"$order\" >&2\n");
  const CliResult result =
      dtrain_.Run({"create", Yaml("name: grid"), "--test"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("test passed"));
}

TEST_F(OwnLengthTest, IsTestedInTheUnitOfItsLength) {
  WriteProgram(
      "[ \"$DTRAIN_UNIT\" = epochs ] || exit 3\n"
      "printf '{\"type\":\"validation\",\"epochs\":%s,"
      "\"metrics\":{\"loss\":1}}\\n' $DTRAIN_UNTIL >&3\n");
  const CliResult result = dtrain_.Run(
      {"create", Yaml("name: single, max_length: {epochs: 50}"), "--test"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("test passed"));
}

TEST_F(OwnLengthTest, BatchesAtEpochZeroAreNoEpochs) {
  WriteProgram(
      "report() { printf '{\"type\":\"%s\",\"epochs\":%s,\"batches\":%s,"
      "\"path\":\"%s\",\"metrics\":{\"loss\":1}}\\n' \"$@\" >&3; }\n"
      "echo > $DTRAIN_DIRECTORY/state\n"
      "if [ $DTRAIN_DONE = 0 ] && [ -z \"$DTRAIN_CHECKPOINT\" ]; then\n"
      "  report training 0 100\n"
      "  report checkpoint 0 100 $DTRAIN_DIRECTORY/state\n"
      "  exit 3\n"
      "fi\n"
      "report validation 3 600\n");
  const CliResult result = dtrain_.Run(
      {"create", Yaml("name: single, max_length: {epochs: 3}"), "-v"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("training at batch 100"));
  EXPECT_THAT(result.err, HasSubstr("restart 1 of 5 from batch 100"));
  EXPECT_THAT(result.out, HasSubstr("at epoch 3 (batch 600)"));
}

TEST_F(OwnLengthTest, UsesTheUnitOfTheProgram) {
  WriteProgram(
      "printf '{\"type\":\"validation\",\"epochs\":3,"
      "\"metrics\":{\"loss\":1}}\\n' >&3\n");
  const CliResult result = dtrain_.Run({"create", Yaml("name: single")});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Trials()[0]["latest"]["value"], 1);
}

// Kernels of RHEL 8 (4.18) and Ubuntu 20.04 (5.4), and containers that forbid
// what is newer.
class OldKernelRunTest : public testing::Test {
 protected:
  OldKernelRunTest() {
    for (const std::string name : {"quick", "slow"}) {
      dtrain_.Write(name + ".yaml",
                    "entrypoint: sh " + name +
                        ".sh\n"
                        "searcher: {name: single, metric: loss, "
                        "max_length: 1}\n"
                        "resources: {slots: cpu}\n");
    }
    const std::string report =
        "echo '{\"type\":\"validation\",\"batches\":1,"
        "\"metrics\":{\"loss\":1}}' >&3\n";
    dtrain_.Write("quick.sh", report);
    dtrain_.Write("slow.sh",
                  "echo $$ >\"$HOME/new\"; mv \"$HOME/new\" \"$HOME/pid\"\n"
                  "sleep 600 & read -r order <&4\n");
  }
  CliRunner dtrain_;
};

// A trial runs, one is asked to stop, and one ends with its killed runner.
constexpr const char* kLives = R"sh(
set -u
wait_for() {
  tries=0
  until "$@"; do
    tries=$((tries + 1)); [ $tries -lt 1200 ] || exit 3; sleep 0.05
  done
}
has_ended() { ! grep -qs '^State:.[^Z]' "/proc/$1/status"; }
dtrain create quick.yaml -q || exit 4
dtrain create slow.yaml -q --timeout 300ms; [ $? = 124 ] || exit 5
rm -f "$HOME/pid"
dtrain create slow.yaml -q &
runner=$!
wait_for [ -e "$HOME/pid" ]
trial=$(cat "$HOME/pid")
has_ended $trial && exit 6
kill -9 $runner
wait_for has_ended $trial
exit 0
)sh";

TEST_F(OldKernelRunTest, TrialsRunStopAndEndWithTheirRunner) {
  const MissingCall pidfd_open{SYS_pidfd_open};
  const MissingCall close_range{SYS_close_range};
  const MissingCall clone_pidfd{.number = SYS_clone, .flags = CLONE_PIDFD};
  const MissingCall clone3{SYS_clone3};
  struct Row {
    const char* kernel;
    std::vector<MissingCall> calls;
  };
  for (const Row& row :
       {Row{"4.18", {pidfd_open, close_range, clone_pidfd, clone3}},
        Row{"5.4", {close_range}},
        Row{"a container",
            {{SYS_pidfd_open, EPERM},
             {SYS_close_range, EPERM},
             {SYS_clone, EPERM, CLONE_PIDFD}}}}) {
    SCOPED_TRACE(row.kernel);
    constexpr int kForbidden = 2;
    const pid_t child = ::fork();
    if (child == 0) {
      const bool forbidden = std::ranges::all_of(row.calls, Forbid);
      if (!forbidden) std::_Exit(kForbidden);
      const CliResult result = dtrain_.RunProgram({"sh", "-c", kLives});
      if (result.code != 0) std::cerr << result.err;
      std::_Exit(result.code);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WEXITSTATUS(status) == kForbidden) {
      GTEST_SKIP() << "seccomp is forbidden here";
    }
    EXPECT_EQ(status, 0);
    fs::remove(dtrain_.directory() / "pid");
  }
}

}  // namespace
}  // namespace dtrain

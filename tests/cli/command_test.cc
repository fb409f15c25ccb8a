// Commands as trials: the examples, and what becomes of a run of them.

#include <csignal>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

std::string TextOf(const fs::path& file) {
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

TEST_F(CommandTest, TheDocumentHasTheExamplesAsTheyAre) {
  const std::string document =
      TextOf(fs::path(DTRAIN_SOURCE_DIR) / "docs" / "protocol.md");
  for (const char* name : {"train.py", "torch_train.py", "newton.sh"}) {
    EXPECT_THAT(document, HasSubstr(TextOf(Example("command/") + name)));
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

// The map of hyperparameters is no range, whatever names are in it.
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

TEST_F(CommandTest, PausesAndGoesOnToTheSameEnd) {
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

TEST_F(CommandTest, CheckpointsAreForTheCommandToRead) {
  ASSERT_EQ(dtrain_.Run({"create", Example("command_shell.yaml")}).code, 0);
  const std::string uuid = dtrain_.Run({"checkpoints", "1", "--json"})
                               .Json()["checkpoints"][0]["uuid"];
  for (const std::vector<std::string>& use :
       {std::vector<std::string>{"evaluate", uuid},
        {"predict", uuid},
        {"checkpoint", "export", uuid, "--to", "safetensors"}}) {
    const CliResult result = dtrain_.Run(use);
    EXPECT_NE(result.code, 0);
    EXPECT_THAT(result.err, HasSubstr("which alone can read it")) << use[0];
  }
}

TEST_F(CommandTest, WhatIsNotThereIsFoundBeforeAnythingIsMade) {
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

TEST_F(CommandTest, WarnsOfWhatACommandDoesItself) {
  const CliResult result =
      dtrain_.Run({"create", Example("command.yaml"), "--dry-run", "--set",
                   "optimizations={sink_size: 5, aggregation_frequency: 2}"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err,
              HasSubstr("optimizations.sink_size: warning: has no effect on a "
                        "command"));
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
              HasSubstr("experiments/1/context\n1.1 | hello"));
}

}  // namespace
}  // namespace dtrain

// Commands by their names in Determined's CLI, and `create --paused`.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/text.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A program that reports once; it also has a checkpoint.
constexpr char kScript[] =
    "#!/bin/sh\n"
    "echo \"hello $DTRAIN_HPARAM_lr\"\n"
    "mkdir $DTRAIN_DIRECTORY/a; echo weights > $DTRAIN_DIRECTORY/a/w.txt\n"
    "printf '{\"type\":\"checkpoint\",\"batches\":10,\"path\":\"%s\"}\\n' "
    "$DTRAIN_DIRECTORY/a >&3\n"
    "printf '{\"type\":\"validation\",\"batches\":10,\"metrics\":{\"loss\":1}}"
    "\\n' >&3\n";

constexpr char kYaml[] =
    "name: one\n"
    "entrypoint: ./one.sh\n"
    "resources: {slots: cpu}\n"
    "checkpoint_policy: all\n"
    "hyperparameters: {lr: 3}\n"
    "searcher: {name: single, metric: loss}\n";

class DeterminedTest : public testing::Test {
 protected:
  DeterminedTest() {
    FillSampleStore(dtrain_.store());
    fs::permissions(dtrain_.Write("one.sh", kScript), fs::perms::owner_all);
    dtrain_.Write("one.yaml", kYaml);
  }

  CliResult Run(const std::string& words) const {
    return dtrain_.Run(Split(words, ' '));
  }
  // Expects that both command lines print the same and exit with 0.
  void ExpectSame(const std::string& det, const std::string& dtrain) const {
    const CliResult one = Run(det);
    const CliResult other = Run(dtrain);
    EXPECT_EQ(one.code, 0) << det << ": " << one.err;
    EXPECT_EQ(one.out, other.out) << det;
    EXPECT_NE(one.out, "") << det;
  }
  void ExpectRefused(const std::string& words, const std::string& why) const {
    const CliResult result = Run(words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_THAT(result.err, HasSubstr(why)) << words;
    EXPECT_EQ(result.out, "") << words;
  }
  json Described(const std::string& id) const {
    return Run("describe " + id + " --json").Json();
  }

  CliRunner dtrain_;
};

TEST_F(DeterminedTest, NamesOfExperimentsCommandsWork) {
  ExpectSame("experiment list -a --csv", "list -a --csv");
  ExpectSame("e ls --csv", "list --csv");
  ExpectSame("e", "list");
  ExpectSame("e -a", "list -a");
  ExpectSame("e describe 1", "describe 1");
  ExpectSame("--color always e lt 1", "--color always trials 1");
  ExpectSame("e -q list-checkpoints 1 --csv", "checkpoints 1 --csv");
  ExpectSame("e config 1", "config 1");
  ExpectSame("e logs 1", "logs 1");
  ExpectSame("slot list", "slots");
}

TEST_F(DeterminedTest, NamesOfTrialsAndCheckpointsCommandsWork) {
  const std::string uuid =
      Run("checkpoints 1 --json").Json()["checkpoints"][0]["uuid"];
  ExpectSame("t describe 1.2", "describe 1.2");
  ExpectSame("trial logs 1.2", "logs 1.2");
  ExpectSame("checkpoint describe " + uuid, "checkpoint show " + uuid);
  ExpectSame("c describe " + uuid, "checkpoint show " + uuid);
  ExpectSame("c show " + uuid, "checkpoint show " + uuid);
}

TEST_F(DeterminedTest, TrialsAreNamedWithTheirExperiment) {
  ExpectRefused("t describe 1", "trials are numbered within their experiment");
  ExpectRefused("trial kill last", "'dtrain trials EXP' lists them");
}

TEST_F(DeterminedTest, LabelsAreAddedAndRemoved) {
  EXPECT_EQ(Run("e label add 1 night").code, 0);
  EXPECT_THAT(Described("1")["labels"], testing::Contains("night"));
  EXPECT_EQ(Run("experiment label remove 1 night").code, 0);
  EXPECT_THAT(Described("1")["labels"],
              testing::Not(testing::Contains("night")));
  ExpectRefused("e label add 1", "give --add LABEL or --remove LABEL");
}

TEST_F(DeterminedTest, OptionsOfCreateWork) {
  const CliResult created =
      Run("e create one.yaml . --config hyperparameters.lr=7 "
          "--follow-first-trial");
  EXPECT_EQ(created.code, 0) << created.err;
  EXPECT_THAT(created.err, HasSubstr("hello 7"));
  EXPECT_THAT(Described("4")["provenance"]["argv"], testing::Contains("--set"));
  EXPECT_EQ(Run("create one.yaml --config=hyperparameters.lr=8").code, 0);
  EXPECT_THAT(Run("logs 5").out, HasSubstr("hello 8"));
  ExpectRefused("create one.yaml --config nmae=x", "nmae");
}

TEST_F(DeterminedTest, OptionsOfLogsWork) {
  EXPECT_EQ(Run("create one.yaml").code, 0);
  ExpectSame("e logs 4 --timestamp-after 1h --rank-id 0", "logs 4");
  EXPECT_EQ(Run("t logs 4.1 --timestamp-before 1h").out, "");
  EXPECT_EQ(Run("logs 4 --until=1h").out, "");
  ExpectSame("logs 4 --until 2999-01-01", "logs 4");
  ExpectRefused("logs 4 --since 1h --until 2h", "--since is later");
  ExpectRefused("logs 4 --until never", "--until: 'never' is neither");
}

TEST_F(DeterminedTest, WordsBehindTheSeparatorAreLeftAlone) {
  ExpectRefused("create one.yaml -- --config", "--config");
  EXPECT_EQ(Run("note 1 -- --config").code, 0);
  EXPECT_EQ(Described("1")["note"], "--config");
}

TEST_F(DeterminedTest, DownloadsAreCopiesOfTheFiles) {
  EXPECT_EQ(Run("create one.yaml").code, 0);
  const std::string uuid =
      Run("checkpoints 4 --json").Json()["checkpoints"][0]["uuid"];
  const CliResult result = Run("checkpoint download " + uuid);
  EXPECT_EQ(result.code, 0) << result.err;
  const fs::path copy = dtrain_.directory() / "checkpoints" / uuid;
  EXPECT_EQ(result.out, copy.string() + "\n");
  std::string text;
  std::getline(std::ifstream(copy / "w.txt"), text);
  EXPECT_EQ(text, "weights");
  ExpectRefused("checkpoint download " + uuid, "already exists");
  EXPECT_EQ(Run("t download 4.1 --best -o copy/").code, 0);
  EXPECT_TRUE(fs::exists(dtrain_.directory() / "copy" / "w.txt"));
  ExpectRefused("e download 4 --top-n 3", "copies one checkpoint");
  EXPECT_EQ(Run("e download-model-def 4 --output-dir=files").code, 0);
  EXPECT_TRUE(fs::exists(dtrain_.directory() / "files"));
  ExpectRefused("e download-model-def 4", "missing --output-dir DIR");
}

TEST_F(DeterminedTest, WhatIsNotThereIsNamed) {
  ExpectRefused("e move 1 a b", "has no workspaces and projects");
  ExpectRefused("e set priority 1 3", "no scheduler with priorities");
  ExpectRefused("e set gc-policy 1", "the numbers of checkpoints to keep");
  ExpectRefused("user list", "dtrain has no users");
  ExpectRefused("w list", "has no workspaces");
  ExpectRefused("a list", "'dtrain slots' shows the GPUs and CPUs");
  ExpectRefused("-q notebook start", "dtrain runs experiments only");
  ExpectRefused("create one.yaml --template t", "merge keys");
  ExpectRefused("e create one.yaml -i x", "stored with the experiment");
  ExpectRefused("logs 1 --agent-id a", "no containers");
  ExpectRefused("e wait 1 --polling-interval 5", "polls by itself");
  ExpectRefused("checkpoint rm 0a1b", "'dtrain checkpoint delete UUID'");
  ExpectRefused("trial set log-retention 1", "dtrain keeps logs until");
  ExpectRefused("config-policies describe", "no policies for configurations");
  ExpectRefused("dev curl /api", "no REST interface");
  ExpectRefused("e list --offset 5", "--limit N prints the first");
  ExpectRefused("e lt 1 --pages all", "--limit N prints the first");
  ExpectRefused("t describe 1.2 --limit 5", "'dtrain metrics EXP.T' has each");
  ExpectRefused("c download 0a1b --mode direct", "copies the files");
  ExpectRefused("e describe 1,2", "describe one at a time");
  ExpectRefused("tensorboard start 1", "dtrain starts no TensorBoard");
  ExpectRefused("tensorboard list", "tensorboard --logdir");
}

TEST_F(DeterminedTest, UnknownNamesHaveSuggestions) {
  ExpectRefused("e lsit", "unknown command 'experiment lsit'; did you mean");
  ExpectRefused("e xyzzy", "see 'dtrain experiment --help'");
  ExpectRefused("trial", "trial: missing subcommand; see");
  ExpectRefused("e set", "experiment set: missing subcommand; known: set name");
  ExpectRefused("det e list", "omit 'det'");
  ExpectRefused("e list --sideways", "unknown option '--sideways'");
}

TEST_F(DeterminedTest, HelpListsTheNamesAndShowsTheCommand) {
  const CliResult help = Run("experiment --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("list-trials, lt"));
  EXPECT_THAT(help.out, HasSubstr("Not in dtrain:\n  set weight"));
  EXPECT_EQ(Run("help e").out, help.out);
  EXPECT_EQ(Run("e help").out, help.out);
  ExpectSame("checkpoint help", "checkpoint --help");
  EXPECT_EQ(Run("e -h").out, help.out);
  ExpectSame("e lt --help", "trials --help");
  ExpectSame("help trial logs", "logs --help");
  ExpectSame("e download-model-def --help", "config --help");
  EXPECT_THAT(Run("--help").out, HasSubstr("'dtrain experiment --help'"));
}

using PausedTest = DeterminedTest;

TEST_F(PausedTest, WaitsForResume) {
  const CliResult created = Run("create one.yaml --paused");
  EXPECT_EQ(created.code, 0) << created.err;
  EXPECT_EQ(created.out, "4\n");
  EXPECT_THAT(created.err, HasSubstr("experiment 4 is paused; start it with "));
  EXPECT_EQ(Described("4")["state"], "PAUSED");
  EXPECT_THAT(Run("trials 4 --json").Json()["trials"], IsEmpty());
  EXPECT_EQ(Run("wait 4").code, 75);
  // Its files are a copy.
  fs::remove(dtrain_.directory() / "one.sh");
  const CliResult resumed = Run("e activate 4");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(Described("4")["state"], "COMPLETED");
}

TEST_F(PausedTest, PrintsJson) {
  const json document = Run("create one.yaml --paused --json").Json();
  EXPECT_EQ(document["experiment"], 4);
  EXPECT_EQ(document["store"], dtrain_.store().string());
}

TEST_F(PausedTest, CanBeCanceled) {
  EXPECT_EQ(Run("create one.yaml --paused").code, 0);
  EXPECT_EQ(Run("cancel 4").code, 0);
  EXPECT_EQ(Described("4")["state"], "CANCELED");
}

TEST_F(PausedTest, RefusesOptionsOfARun) {
  ExpectRefused("create one.yaml --paused --detach", "--paused starts no run");
  ExpectRefused("create one.yaml --paused --test", "--paused starts no run");
  EXPECT_EQ(Run("list -a --json").Json()["experiments"].size(), 3);
}

TEST_F(DeterminedTest, ShellsCompleteTheNames) {
  const auto complete = [this](const std::string& words) {
    std::vector<std::string> all = Split(words, ' ');
    all.insert(all.begin(), {"__complete", "zsh"});
    std::vector<std::string> lines = Split(dtrain_.Run(all).out, '\n');
    lines.pop_back();
    for (std::string& line : lines) line = line.substr(0, line.find('\t'));
    return lines;
  };
  EXPECT_THAT(complete("e d"),
              ElementsAre(":values", "describe", "download-model-def", "delete",
                          "download"));
  EXPECT_THAT(complete("experiment set n"), ElementsAre(":values", "name"));
  EXPECT_THAT(complete("trial l"), ElementsAre(":values", "logs"));
  EXPECT_EQ(complete("e describe "), complete("describe "));
  EXPECT_EQ(complete("e create --te"), complete("create --te"));
  EXPECT_THAT(complete("e list --st"), testing::Contains("--state"));
  EXPECT_EQ(complete("c ver"), complete("checkpoint ver"));
}

}  // namespace
}  // namespace dtrain

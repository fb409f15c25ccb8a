// `run`: experiments without a YAML file.

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

int Occurrences(const std::string& text, const std::string& word) {
  int count = 0;
  for (std::size_t at = text.find(word); at != text.npos;
       at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

class RunCommandTest : public testing::Test {
 protected:
  RunCommandTest() {
    std::filesystem::permissions(
        dtrain_.Write("loss.sh",
                      "#!/bin/sh\n"
                      "echo \"hello $1 $2 $3\"\n"
                      "echo '{\"type\": \"validation\", \"batches\": 10, "
                      "\"metrics\": {\"loss\": '$DTRAIN_HPARAM_lr'}}' >&3\n"),
        std::filesystem::perms::owner_all);
  }

  CliResult Run(std::vector<std::string> options,
                std::vector<std::string> command = {"./loss.sh"}) const {
    options.insert(options.begin(), {"run", "--metric", "loss"});
    options.push_back("--");
    options.insert(options.end(), command.begin(), command.end());
    return dtrain_.Run(options);
  }

  CliRunner dtrain_;
};

const std::vector<std::string> kRandomSearch = {
    "--hp", "lr=double(0.25,4)", "--max-trials", "3", "--slots", "cpu:1"};

TEST_F(RunCommandTest, SearchesLikeCreateWithThePrintedYaml) {
  std::vector<std::string> options = kRandomSearch;
  options.push_back("--print-yaml");
  const CliResult printed = Run(options);
  ASSERT_EQ(printed.code, 0) << printed.err;
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store() / "store.db"));
  dtrain_.Write("printed.yaml", printed.out);
  options.back() = "--json";
  const CliResult ran = Run(options);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.Json()["trials_by_state"], json({{"COMPLETED", 3}}));
  EXPECT_GE(ran.Json()["best"]["value"], 0.25);
  const CliResult created = dtrain_.Run({"create", "printed.yaml"});
  ASSERT_EQ(created.code, 0) << created.err;
  const json first = dtrain_.Run({"config", "1", "--json"}).Json();
  const json second = dtrain_.Run({"config", "2", "--json"}).Json();
  const auto without_seed = [](json config) {
    config["reproducibility"].erase("experiment_seed");
    return config;
  };
  EXPECT_EQ(without_seed(first), without_seed(second));
}

// The direction of a metric is an option here.
TEST_F(RunCommandTest, NamesTheOptionOfTheDirection) {
  const auto warning = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"run", "--hp", "lr=1", "--print-yaml"});
    options.insert(options.end(), {"--", "./loss.sh"});
    const CliResult result = dtrain_.Run(options);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.err;
  };
  EXPECT_THAT(warning({"--metric", "val_acc"}),
              HasSubstr("searcher.smaller_is_better: warning: "
                        "smaller_is_better is true, but 'val_acc' is usually "
                        "maximized; add --maximize"));
  EXPECT_THAT(warning({"--metric", "rmse", "--maximize"}),
              HasSubstr("usually minimized; leave out --maximize"));
  EXPECT_EQ(warning({"--metric", "val_acc", "--maximize"}), "");
  EXPECT_EQ(warning({"--metric", "rmse"}), "");
}

// Values that a YAML file would not have either.
TEST_F(RunCommandTest, RefusesValuesThatWouldBecomeOthers) {
  for (const std::string value :
       {"18446744073709551615", "1e400", "[1,1e400]", ".inf", "choice(.nan,1)",
        "1,2,3", "[1:4]", "uniform[0:1]", "0.1:1", "choice([2**i for i in x])",
        "f)"}) {
    const CliResult result = Run({"--hp", "lr=" + value, "--max-trials", "2"});
    EXPECT_EQ(result.code, 2) << value;
    EXPECT_THAT(result.err, HasSubstr("--hp 'lr=" + value + "': ")) << value;
  }
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
}

TEST_F(RunCommandTest, PassesTheWordsAfterDashesAsTheyAre) {
  const CliResult result = Run({"--hp", "lr=1"}, {"./loss.sh", "[a,b]", "--"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("hello [a,b] -- "));
}

TEST_F(RunCommandTest, TakesTheLastValueOfAStepUnlessToldOtherwise) {
  dtrain_.Write("steps.sh",
                "for e in 1 2; do echo epoch $e; echo loss 9; echo loss $e; "
                "done\n");
  const std::string last = "1,1\r\n2,2\r\n", first = "1,9\r\n2,9\r\n";
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows = {
      {{}, last},
      {{"--pattern", "first_value=false"}, last},
      {{"--pattern", "first_value=true"}, first},
      {{"--set", "metrics.first_value=true"}, first},
      {{"--set", "rules=1"}, first},
  };
  for (const auto& [more, values] : rows) {
    std::vector<std::string> options = {"--slots",   "cpu:1",
                                        "--pattern", "loss=loss (.)",
                                        "--pattern", "step=epoch (.)"};
    options.insert(options.end(), more.begin(), more.end());
    const CliResult result = Run(options, {"sh", "steps.sh"});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(
        dtrain_.Run({"metrics", "last", "--csv", "--columns", "batches,value"})
            .out,
        "batches,value\r\n" + values)
        << testing::PrintToString(more);
  }
}

TEST_F(RunCommandTest, OptionsOfTheProgramComeAfterDashes) {
  for (const std::string option : {"--lr", "-x", "--epochs=3", "--metrics"}) {
    const CliResult result = dtrain_.Run(
        {"run", "--metric", "loss", "--hp", "lr=1", "./loss.sh", option});
    EXPECT_EQ(result.code, 2) << option;
    EXPECT_THAT(result.err,
                HasSubstr("; write -- before the program and its options"));
  }
  EXPECT_THAT(dtrain_.Run({"create", "--lr"}).err,
              testing::Not(HasSubstr("before the program")));
}

TEST_F(RunCommandTest, NamesEveryOptionThatARefusalMeans) {
  for (const std::string mode : {"--test", "--paused"}) {
    for (const std::vector<std::string>& given :
         {std::vector<std::string>{"--require", "loss<1"},
          {"--require-any"},
          {"--max-failed", "0"},
          {"--timeout", "1s"},
          {"--junit", "r.xml"}}) {
      std::vector<std::string> options = {"--hp", "lr=1", mode};
      options.insert(options.end(), given.begin(), given.end());
      const CliResult result = Run(options);
      EXPECT_EQ(result.code, 2);
      EXPECT_THAT(result.err, HasSubstr(given.front()));
    }
  }
}

TEST_F(RunCommandTest, CreatesTheSameWithOverridesAndPlaceholders) {
  const std::vector<std::string> command = {"./loss.sh", "{lr}", "{{lr}}",
                                            "{\"a\": 1}"};
  std::vector<std::string> options = kRandomSearch;
  options.insert(options.end(), {"--set", "reproducibility.experiment_seed=7",
                                 "--set", "hyperparameters.lr=3", "--set",
                                 "searcher={name: single, metric: loss}",
                                 "--label", "b", "--name", "other"});
  const CliResult ran = Run(options, command);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("hello 3 {lr} {\"a\": 1}"));
  options.push_back("--print-yaml");
  const CliResult printed = Run(options, command);
  dtrain_.Write("printed.yaml", printed.out);
  const CliResult created = dtrain_.Run({"create", "printed.yaml"});
  ASSERT_EQ(created.code, 0) << created.err << printed.out;
  EXPECT_EQ(dtrain_.Run({"config", "1", "--json"}).Json(),
            dtrain_.Run({"config", "2", "--json"}).Json());
}

TEST_F(RunCommandTest, TestsTheProgramAndKeepsNothing) {
  const CliResult result = Run({"--hp", "lr=1", "--slots", "cpu:1", "--test"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("test passed in"));
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store() / "store.db"));
}

TEST_F(RunCommandTest, SaysOnceThatTrialsAreStoppedAtRungs) {
  std::vector<std::string> options = kRandomSearch;
  options.insert(options.end(), {"--dry-run", "--searcher", "asha",
                                 "--max-length", "batches=10"});
  EXPECT_THAT(Run(options).err, HasSubstr("add --resumable"));
  options.push_back("--resumable");
  EXPECT_THAT(Run(options).err, Not(HasSubstr("--resumable")));
}

TEST_F(RunCommandTest, RefusesABadCommandLine) {
  const auto refusal = [](const CliResult& result) {
    EXPECT_EQ(result.code, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(refusal(dtrain_.Run({"run", "--metric", "loss", "./loss.sh"})),
              HasSubstr("the program and its arguments follow '--'"));
  EXPECT_THAT(refusal(Run({}, {})), HasSubstr("run: COMMAND"));
  EXPECT_THAT(refusal(Run({"--hp", "lr=1"}, {"./loss.sh", "{l}"})),
              HasSubstr("no hyperparameter 'l' for {l}; did you mean 'lr'?"));
  EXPECT_THAT(refusal(Run({}, {""})), HasSubstr("the program after '--'"));
  EXPECT_THAT(refusal(Run({"--set", "searcher.max_trails=3"})),
              HasSubstr("did you mean 'max_trials'?"));
  EXPECT_THAT(refusal(Run({"--test", "--detach"})),
              HasSubstr("--test keeps no experiment"));
  EXPECT_THAT(refusal(Run({}, {"./missing.sh"})), HasSubstr("missing.sh"));
  EXPECT_THAT(refusal(Run({"--slots", "cpu:x"})), HasSubstr("resources.slots"));
  EXPECT_THAT(refusal(Run({"--print-yaml", "--detach"})),
              HasSubstr("--print-yaml runs nothing"));
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store() / "store.db"));
}

// Programs are known by their texts.
class RunChecksTest : public RunCommandTest {
 protected:
  // Returns the messages of `run` with the files and a hyperparameter.
  std::string Checked(const std::string& text,
                      const std::vector<std::string>& command,
                      std::vector<std::string> options = {}) const {
    dtrain_.Write("train.py", text);
    options.insert(options.begin(), {"--hp", "lr=log(1e-5,1)", "--max-trials",
                                     "4", "--dry-run", "--slots", "cpu:1"});
    const CliResult result = Run(options, command);
    return "exit " + std::to_string(result.code) + "\n" + result.err;
  }
  std::string Halved(const std::string& text,
                     const std::vector<std::string>& command) const {
    return Checked(text, command,
                   {"--searcher", "asha", "--max-length", "batches=16"});
  }

  const std::vector<std::string> plain_ = {"python3", "train.py"};
};

TEST_F(RunChecksTest, RefusesAHyperparameterThatDoesNotReachTheProgram) {
  const std::string refusal = Checked("import os\nprint('# dtrain')\n", plain_);
  EXPECT_THAT(refusal, HasSubstr("exit 2"));
  EXPECT_THAT(refusal, HasSubstr("hyperparameter 'lr': train.py does not "
                                 "receive it; add {lr} to the command"));
  EXPECT_THAT(Checked("import os\n", plain_, {"--unchecked"}),
              HasSubstr("exit 0"));
}

TEST_F(RunChecksTest, AcceptsAHyperparameterThatTheScriptReads) {
  const std::string accepted = "exit 0";
  EXPECT_THAT(Checked("import dtrain\n", plain_), HasSubstr(accepted));
  EXPECT_THAT(Checked("try: from dtrain import core\nexcept: pass\n", plain_),
              HasSubstr(accepted));
  EXPECT_THAT(
      Checked("open(os.environ['DTRAIN_TRIAL']); os.write(3, b'')\n", plain_),
      HasSubstr(accepted));
  const std::string reads =
      "lr = os.environ['DTRAIN_HPARAM_lr']\nopen(3, 'w')\n";
  EXPECT_THAT(Checked(reads, plain_), HasSubstr(accepted));
  EXPECT_THAT(Checked(reads, plain_, {"--hp", "width=3"}),
              HasSubstr("hyperparameter 'width'"));
}

TEST_F(RunChecksTest, FollowsModulesAndScripts) {
  std::filesystem::create_directory(dtrain_.directory() / "lib");
  dtrain_.Write("lib/trainer.py", "from . import base\n");
  dtrain_.Write("lib/base.py", "import sys, dtrain  # reports\n");
  const std::string imports = "import os\nfrom lib.trainer import Trainer\n";
  EXPECT_THAT(Checked(imports, plain_), HasSubstr("exit 0"));
  EXPECT_THAT(Checked("", {"python3", "-m", "lib.trainer"}),
              HasSubstr("exit 0"));
  EXPECT_THAT(Checked(imports, {"sh", "-c", "exec python3 train.py"}),
              HasSubstr("exit 0"));
  dtrain_.Write("start.sh", "exec \"python3\" train.py \"$@\"\n");
  EXPECT_THAT(Checked(imports, {"sh", "start.sh"}), HasSubstr("exit 0"));
  EXPECT_THAT(Checked("# import dtrain\n", {"sh", "start.sh"}),
              HasSubstr("start.sh does not receive it"));
}

TEST_F(RunChecksTest, RefusesAPythonScriptThatCannotReport) {
  const std::vector<std::string> command = {"python3", "train.py", "{lr}"};
  const std::string refusal = Checked("import os\n", command);
  EXPECT_THAT(refusal, HasSubstr("exit 2"));
  EXPECT_THAT(refusal, HasSubstr("train.py: does not report 'loss'"));
  EXPECT_THAT(Checked("import os\n", command, {"--unchecked"}),
              HasSubstr("exit 0"));
}

TEST_F(RunChecksTest, PromotesTrialsOfAProgramThatContinues) {
  EXPECT_THAT(Halved("import dtrain\n", plain_), Not(HasSubstr("rungs")));
  EXPECT_THAT(Halved("open(3, os.environ['DTRAIN_HPARAM_lr'])\n", plain_),
              HasSubstr("trials are stopped at rungs and not promoted"));
  EXPECT_THAT(Halved("open(3)\n", {"python3", "train.py", "{lr}", "{length}"}),
              HasSubstr("is run again from its beginning"));
  EXPECT_THAT(Halved("open(3)\n", {"python3", "train.py", "{lr}", "{length}",
                                   "{checkpoint}"}),
              Not(HasSubstr("rungs")));
}

// Validates twice; what it prints tells how it was started.
class RunHalvingTest : public RunCommandTest {
 protected:
  json Search(const std::vector<std::string>& command) const {
    dtrain_.Write("train.py",
                  "import sys\n"
                  "print('started', *sys.argv[1:], flush=True)\n"
                  "with open(3, 'w') as reports:\n"
                  "    for n in range(1, int(sys.argv[2]) + 1):\n"
                  "        reports.write('{\"type\": \"validation\", "
                  "\"epochs\": %d, \"metrics\": {\"loss\": %s}}\\n' "
                  "% (n, sys.argv[1]))\n"
                  "        reports.flush()\n");
    const CliResult result = Run(
        {"--hp", "lr=double(0,1)", "--searcher", "asha", "--max-trials", "8",
         "--max-length", "epochs=4", "--set", "searcher.num_rungs=2", "--set",
         "reproducibility.experiment_seed=1", "--slots", "cpu:1", "--json"},
        command);
    EXPECT_EQ(result.code, 0) << result.err;
    notices_ = result.err;
    return result.Json();
  }

  mutable std::string notices_;  // of the last search
};

TEST_F(RunHalvingTest, StopsTrialsOfAProgramThatCannotContinue) {
  const json result = Search({"python3", "train.py", "{lr}", "4"});
  EXPECT_GE(result["trials_by_state"]["STOPPED"].get<int>(), 1);
  EXPECT_EQ(result["trials_by_state"]["COMPLETED"].get<int>() +
                result["trials_by_state"]["STOPPED"].get<int>(),
            8);
  const std::string log = dtrain_.Run({"logs", "1"}).out;
  EXPECT_EQ(Occurrences(log, "started"), 8) << log;
  EXPECT_EQ(Occurrences(log, "instead of"), 0) << log;
  EXPECT_THAT(notices_, Not(HasSubstr("from its beginning again")));
}

TEST_F(RunHalvingTest, RunsAPromotedTrialAgainToItsLength) {
  const json result = Search({"python3", "train.py", "{lr}", "{length}"});
  EXPECT_GE(result["trials_by_state"]["COMPLETED"].get<int>(), 2);
  const std::string log = dtrain_.Run({"logs", "1"}).out;
  EXPECT_GT(Occurrences(log, "started"), 8);
  EXPECT_EQ(Occurrences(notices_,
                        "has saved no checkpoint, so it trains from its "
                        "beginning again, to 4 epochs; other trials may do so "
                        "too"),
            1);
}

}  // namespace
}  // namespace dtrain

// `import-sweep`: sweeps of W&B, converted and run.

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ImportSweepCommandTest : public testing::Test {
 protected:
  ImportSweepCommandTest() {
    dtrain_.Write("train.py",
                  "import sys, dtrain\n"
                  "print('words:', *sys.argv[1:], flush=True)\n"
                  "trial = dtrain.init()\n"
                  "trial.validate(loss=trial.hparams.lr)\n");
  }

  // Returns the result of the conversion to imported.yaml.
  CliResult Import(const std::string& sweep,
                   std::vector<std::string> options = {}) const {
    dtrain_.Write("sweep.yaml", sweep);
    options.insert(options.begin(),
                   {"import-sweep", "sweep.yaml", "--out", "imported.yaml"});
    return dtrain_.Run(options);
  }

  std::string ParametersAnd(const std::string& rest) const {
    return "program: train.py\nmethod: grid\nmetric: {name: loss}\n"
           "parameters:\n  lr: {values: [0.5]}\n"
           "  model.width: {values: [4]}\n"
           "  flag: {values: [true, false]}\n"
           "  opt: {values: [adam]}\n" +
           rest;
  }

  CliRunner dtrain_;
};

TEST_F(ImportSweepCommandTest, WritesAnExperimentThatRuns) {
  const CliResult imported = Import(ParametersAnd(""));
  ASSERT_EQ(imported.code, 0) << imported.err;
  EXPECT_EQ(dtrain_.Run({"validate", "imported.yaml"}).code, 0);
  const CliResult created =
      dtrain_.Run({"create", "imported.yaml", "--slots", "cpu:1", "--json"});
  ASSERT_EQ(created.code, 0) << created.err;
  EXPECT_EQ(created.Json()["trials_by_state"], json({{"COMPLETED", 2}}));
  const std::string log = dtrain_.Run({"logs", "1"}).out;
  EXPECT_THAT(log, HasSubstr("words: --flag=True --lr=0.5 --model.width=4 "
                             "--opt=adam"));
  EXPECT_THAT(log, HasSubstr("words: --flag=False"));
}

TEST_F(ImportSweepCommandTest, PassesFlagsAndJson) {
  const CliResult imported = Import(
      ParametersAnd("command: [\"${env}\", \"${interpreter}\", \"${program}\", "
                    "\"${args_no_boolean_flags}\", \"${args_json}\", "
                    "\"${args_json_file}\"]\n"));
  ASSERT_EQ(imported.code, 0) << imported.err;
  const CliResult created =
      dtrain_.Run({"create", "imported.yaml", "--slots", "cpu:1"});
  ASSERT_EQ(created.code, 0) << created.err;
  const std::string log = dtrain_.Run({"logs", "1"}).out;
  const std::string rest = "--lr=0.5 --model.width=4 --opt=adam {\"flag\": ";
  EXPECT_THAT(log, HasSubstr("words: " + rest +
                             "false, \"lr\": 0.5, "
                             "\"model.width\": 4, \"opt\": \"adam\"} "
                             "sweep_args.json\n"));
  EXPECT_THAT(log, HasSubstr("sweep_args.json --flag\n"));
}

TEST_F(ImportSweepCommandTest, WarnsOfAScriptThatReportsToWandbAlone) {
  dtrain_.Write("train.py", "import wandb\nwandb.log({'loss': 1})\n");
  const CliResult imported = Import(ParametersAnd(""));
  EXPECT_EQ(imported.code, 0) << imported.err;
  EXPECT_THAT(imported.err,
              HasSubstr("train.py must report 'loss' to dtrain, which does not "
                        "read wandb.log()"));
}

// `create` looks for the program beside the YAML, W&B in the working directory.
TEST_F(ImportSweepCommandTest, NamesAProgramThatCreateWouldNotFind) {
  const auto warning = [&](const std::vector<std::string>& words) {
    const CliResult result = dtrain_.Run(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.err;
  };
  std::filesystem::create_directory(dtrain_.directory() / "sweeps");
  dtrain_.Write("sweeps/s.yaml", ParametersAnd(""));
  const std::string elsewhere =
      "no train.py in sweeps, where 'create' looks for it; W&B runs it in the "
      "working directory: 'dtrain create sweeps/i.yaml .' does so, too";
  EXPECT_THAT(
      warning({"import-sweep", "sweeps/s.yaml", "--out", "sweeps/i.yaml"}),
      AllOf(HasSubstr(elsewhere), Not(HasSubstr("must report"))));
  EXPECT_THAT(warning({"import-sweep", "sweeps/s.yaml"}),
              HasSubstr("no train.py in sweeps"));
  EXPECT_THAT(warning({"import-sweep", "sweeps/s.yaml", "--out", "i.yaml"}),
              Not(HasSubstr("no train.py")));
  dtrain_.Write("sweeps/none.yaml",
                "program: none.py\nmethod: grid\nmetric: {name: loss}\n"
                "parameters: {flag: {values: [true, false]}}\n"
                "command: [\"${program}\", \"${args_no_boolean_flags}\"]\n");
  EXPECT_THAT(warning({"import-sweep", "sweeps/none.yaml"}),
              AllOf(HasSubstr("no none.py in sweeps, where 'create' looks for "
                              "it; give its directory as CONTEXT: 'dtrain "
                              "create YAML DIRECTORY'"),
                    Not(HasSubstr("must report"))));
}

TEST_F(ImportSweepCommandTest, RefusesWhatCannotBeConverted) {
  const CliResult result = Import("method: baye\nparameters: [1]\n");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("sweep.yaml:1:9: method: expected grid"));
  EXPECT_THAT(result.err,
              HasSubstr("sweep.yaml: 3 errors; nothing was converted"));
  EXPECT_FALSE(std::filesystem::exists(dtrain_.directory() / "imported.yaml"));
  EXPECT_EQ(dtrain_.Run({"import-sweep", "none.yaml"}).code, 2);
}

// A finding has a line only in a text that the user has seen; otherwise it
// names what the user wrote.
TEST_F(ImportSweepCommandTest, FindingsPointIntoTextsOfTheUser) {
  dtrain_.Write(
      "sweep.yaml",
      "program: train.py\nmethod: random\nrun_cap: 2\n"
      "metric: {name: acc, goal: minimize}\nparameters:\n"
      "  n: {distribution: int_uniform, min: 1, max: 99999999999999999}"
      "\n");
  dtrain_.Write("warned.yaml",
                "program: train.py\nmethod: random\nrun_cap: 2\n"
                "metric: {name: accuracy, goal: minimize}\nparameters:\n"
                "  lr: {min: 0.1, max: 0.2}\n"
                "  opt:\n    parameters: {vals: {value: 1}}\n");
  dtrain_.Write("recorded.yaml",
                "entrypoint: [sh, -c, \"echo '{\\\"type\\\":\\\"validation\\\","
                "\\\"batches\\\":4,\\\"metrics\\\":{\\\"loss\\\":1}}' >&3\"]\n"
                "searcher: {name: single, metric: loss, max_length: 4}\n"
                "hyperparameters: {a: {vals: 3}}\n");
  ASSERT_EQ(dtrain_.Run({"create", "recorded.yaml", "-q"}).code, 0);
  const std::vector<std::string> run = {"run",         "--metric",     "loss",
                                        "--unchecked", "--max-trials", "2"};
  const auto with = [&](std::vector<std::string> words) {
    std::vector<std::string> all = run;
    all.insert(all.end(), words.begin(), words.end());
    return all;
  };
  struct Case {
    std::vector<std::string> words;
    std::string finding;  // the beginning of its line
  };
  const std::vector<Case> cases = {
      {{"import-sweep", "sweep.yaml"},
       "sweep.yaml:6:3: parameters.n: expected an integer from "},
      {{"import-sweep", "warned.yaml"},
       "warned.yaml:4:9: metric: warning: smaller_is_better is true"},
      {{"import-sweep", "warned.yaml"},
       "warned.yaml:7:3: parameters.opt: warning: has vals, but no type"},
      {with({"--hp", "n=int(1,99999999999999999)", "--", "sh", "x", "{n}"}),
       "dtrain run: hyperparameters.n.maxval: expected an integer from "},
      {with({"--hp", "a.vals=[1,3]", "--", "sh", "x", "{a.vals}"}),
       "dtrain run: hyperparameters.a: warning: has vals, but no type"},
      {with({"--hp", "n=int(1,3)", "--set", "hyperparameters.b=[1", "--", "sh",
             "x", "{n}"}),
       "dtrain: error: --set hyperparameters.b: a list or map as key"},
      {{"reproduce", "1.1"},
       "trial 1.1: hyperparameters.a: warning: has vals, but no type"},
      {{"create", "recorded.yaml", "--slots", "[1"},
       "--slots: a list or map as key"},
      {{"create", "recorded.yaml", "--label", ""}, "--label: labels[0]: "},
      {{"create", "recorded.yaml", "--executor", "x"}, "--executor: "},
      {{"create", "recorded.yaml", "--slurm", "x=1"}, "--slurm x: "},
      {{"create", "recorded.yaml", "--set", "resources.slots=[1"},
       "--set resources.slots: a list or map as key"},
  };
  for (const auto& [words, finding] : cases) {
    const CliResult result = dtrain_.Run(words);
    EXPECT_THAT("\n" + result.err, HasSubstr("\n" + finding))
        << testing::PrintToString(words);
    EXPECT_THAT(result.err, Not(testing::ContainsRegex(
                                "(dtrain run|trial 1.1|converted YAML):[0-9]")))
        << testing::PrintToString(words);
  }
}

TEST_F(ImportSweepCommandTest, DoesNotReplaceAFile) {
  ASSERT_EQ(Import(ParametersAnd("")).code, 0);
  const CliResult again = Import(ParametersAnd(""));
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("imported.yaml"));
}

}  // namespace
}  // namespace dtrain

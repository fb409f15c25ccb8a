// Trials that end without a result: which of them have failed, and what the
// exit code of a search says of them.

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/os/files.h"
#include "tests/support/fault_run.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// Ends as the hyperparameter says: "good", "invalid", "fatal" or "crash".
constexpr char kProgram[] = R"(
say() { echo "$1" >&3; }
case $DTRAIN_HPARAM_end in
  invalid) say '{"type":"end","reason":"invalid_hp","message":"too wide"}' ;;
  fatal) say '{"type":"end","reason":"fatal","message":"invalid hyperparameters: none"}' ;;
  crash) say '{"type":"validation","batches":1,"metrics":{"loss":0.1}}'
         echo 'error: the lens is closed' >&2; exit 1 ;;
  *) say '{"type":"validation","batches":2,"metrics":{"loss":0.5}}' ;;
esac
)";

class FailedTrialsTest : public FaultRun {
 protected:
  /// Creates a grid search with a trial for each end.
  CliResult CreateEnds(const std::string& ends,
                       std::vector<std::string> options = {}) const {
    dtrain_.Write("program.sh", kProgram);
    return Create(
        "entrypoint: sh program.sh\nmax_restarts: 0\n"
        "hyperparameters: {end: {type: categorical, vals: [" +
            ends +
            "]}}\nsearcher: {name: grid, metric: loss, max_length: 2}\n"
            "resources: {slots: cpu}\n",
        std::move(options));
  }
};

TEST_F(FailedTrialsTest, AnInvalidTrialIsNoFailure) {
  const CliResult result =
      CreateEnds("good, invalid, fatal", {"--junit", "r.xml"});

  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("3 trials: 1 completed, 1 failed, 1 invalid\n"));
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("is INVALID: invalid hyperparameters: too wide"),
                    Not(HasSubstr("too wide failed"))));
  std::map<std::string, json> trials;  // by end
  for (const json& trial : Trials()) {
    trials[trial.at("hparams").at("end").get<std::string>()] = trial;
  }
  EXPECT_EQ(trials["invalid"].at("state"), "INVALID");
  // An error with these words is an error.
  EXPECT_EQ(trials["fatal"].at("state"), "ERROR");
  EXPECT_EQ(trials["fatal"].at("reason"),
            "failed: invalid hyperparameters: none");
  const auto count = [this](const std::string& filter) {
    return Run({"trials", "1", "--json", "--filter", filter})
        .Json()["trials"]
        .size();
  };
  EXPECT_EQ(count("state == INVALID"), 1u);
  EXPECT_EQ(count("state == ERROR"), 1u);
  EXPECT_THAT(Run({"describe", "1"}).out,
              HasSubstr("3, 1 COMPLETED, 1 ERROR, 1 INVALID"));
  const std::string junit =
      ReadFile(dtrain_.directory() / "r.xml").value_or("");
  EXPECT_THAT(junit,
              AllOf(HasSubstr("failures=\"1\""), HasSubstr("skipped=\"1\""),
                    HasSubstr("INVALID: invalid hyperparameters")));
  // The form of earlier versions, which is shown as INVALID as well.
  EXPECT_EQ(Shell("python3 -c 'import sqlite3; "
                  "print(sqlite3.connect(\"store/dtrain.db\").execute(\"SELECT "
                  "state FROM trials WHERE number = 2\").fetchone()[0])'")
                .out,
            "ERROR\n");
}

// The exit code of searches of one good trial and others, and of `wait` for
// them, which says the same.
TEST_F(FailedTrialsTest, ExitCodeCountsFailures) {
  struct Row {
    std::string ends;
    std::vector<std::string> options;
    int code;
    std::string last;  // line on stderr; empty: none about failures
  };
  const std::vector<Row> rows = {
      {"good, crash, fatal",
       {},
       0,
       "dtrain: experiment 1: 2 of 3 trials failed\n"},
      {"good, crash, fatal",
       {"--max-failed", "2"},
       0,
       "2 of 3 trials failed\n"},
      {"good, crash, fatal",
       {"--max-failed", "1"},
       1,
       "2 of 3 trials failed; --max-failed allows 1\n"},
      {"good, crash", {"--max-failed", "0"}, 1, "--max-failed allows 0\n"},
      {"good, invalid", {"--max-failed", "0"}, 0, ""},
      // A failed trial has the best value, and no usable result.
      {"good, crash", {"--require", "loss<0.2"}, 4, "1 of 2 trials failed\n"},
      {"good, crash", {"--require", "loss<0.6"}, 0, "1 of 2 trials failed\n"},
      {"good, crash",
       {"--require", "loss<0.2", "--require-any"},
       0,
       "1 of 2 trials failed\n"},
      {"good, crash",
       {"--require", "failed==1 and completed>=1 and trials==2 and stopped<1"},
       0,
       "1 of 2 trials failed\n"},
      {"good, crash", {"--require", "failed==0"}, 4, "1 of 2 trials failed\n"},
      {"crash, fatal", {"--require", "loss<0.2"}, 1, "2 of 2 trials failed\n"},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    SCOPED_TRACE(row.ends + " " + testing::PrintToString(row.options));
    const CliResult created = CreateEnds(row.ends, row.options);
    std::vector<std::string> wait = {"wait", std::to_string(i + 1)};
    wait.insert(wait.end(), row.options.begin(), row.options.end());

    for (const CliResult& result : {created, Run(wait)}) {
      EXPECT_EQ(result.code, row.code) << result.err;
      if (row.last.empty()) {
        EXPECT_THAT(result.err, Not(HasSubstr("trials failed")));
      } else {
        EXPECT_THAT(result.err, EndsWith(row.last));
      }
    }
  }
}

TEST_F(FailedTrialsTest, AMetricNamedAsACountGoesFirst) {
  dtrain_.Write("program.sh",
                "echo '{\"type\":\"validation\",\"batches\":2,"
                "\"metrics\":{\"loss\":1,\"failed\":7}}' >&3\n");
  EXPECT_EQ(Create("entrypoint: sh program.sh\nsearcher: {name: single, "
                   "metric: loss, max_length: 2}\nresources: {slots: cpu}\n",
                   {"--require", "failed==7"})
                .code,
            0);
  EXPECT_EQ(Run({"wait", "1", "--require", "failed==0"}).code, 4);
}

// Whatever else may fail.
TEST_F(FailedTrialsTest, ATrialRefusedForItsConfigurationIsNotAllowed) {
  const auto create = [this](const std::string& entrypoint,
                             const std::string& more) {
    const CliResult result =
        Create("entrypoint: " + entrypoint +
                   "\nmax_restarts: 0\n"
                   "hyperparameters: {x: {type: categorical, vals: [a, b]}}\n"
                   "searcher: {name: grid, metric: loss, max_length: {epochs: "
                   "1}}\nresources: {slots: cpu}\n" +
                   more,
               {"--max-failed", "9"});
    EXPECT_EQ(result.code, 1) << result.err;
    return result.err;
  };
  dtrain_.Write("program.sh",
                "[ $DTRAIN_HPARAM_x = b ] || { echo loss 0.5; exit 0; }\n"
                "echo '{\"type\":\"validation\",\"epochs\":1,\"metrics\":"
                "{\"loss\":1}}' >&3; sleep 600\n");
  EXPECT_THAT(create("sh program.sh", "metrics: {loss: 'loss (\\S+)'}\n"),
              ContainsRegex("1 of 2 trials failed, trial 1.[12] for its "
                            "configuration: the program reports"));
  dtrain_.Write("train.py",
                "import argparse, dtrain\np = argparse.ArgumentParser()\n"
                "p.add_argument('--x', choices=['a'])\nt = dtrain.init()\n"
                "t.parse_args(p)\nt.validate(loss=1)\n");
  EXPECT_THAT(create("python3 train.py", ""),
              ContainsRegex("1 of 2 trials failed, trial 2.[12] for its "
                            "configuration: exited with code 2"));
}

/// Scripts that search x, y or a nested value.
class ScriptSearchTest : public FailedTrialsTest {
 protected:
  /// Each start of the script adds a line to the file "starts".
  CliResult CreateSearch(const std::string& script,
                         const std::string& metric = "acc",
                         std::vector<std::string> options = {},
                         const std::string& arguments = "") const {
    dtrain_.Write("train.py", "import os\nopen('" + Starts().string() +
                                  "', 'a').write('x')\nimport dtrain\n" +
                                  script);
    options.insert(options.end(), {"--slots", "cpu:1"});
    return Create("entrypoint: python3 train.py" + arguments +
                      "\nhyperparameters:\n"
                      "  x: {type: categorical, vals: [0.25, 0.75]}\n"
                      "  net: {depth: {type: int, minval: 3, maxval: 9}}\n"
                      "searcher: {name: random, metric: " +
                      metric + ", max_trials: 3, max_length: {epochs: 2}}\n",
                  std::move(options));
  }
  std::filesystem::path Starts() const {
    return dtrain_.directory() / "starts";
  }
};

TEST_F(ScriptSearchTest, AWrongMetricEndsTheSearch) {
  struct Row {
    std::string script;
    std::string metric;
    std::string why;
  };
  const std::string begin =
      "t = dtrain.init(); h = t.hparams.to_dict()\n"
      "for e in t.epochs(2):\n  t.report(loss=1)\n";
  const std::vector<Row> rows = {
      {begin + "  t.validate(acc=1)\n", "val_acc",
       "'val_acc' was not reported; reported: acc; set searcher.metric to one "
       "of these; did you mean 'acc'?"},
      {begin + "  t.validate(accuracy=1)\n", "acuracy",
       "of these; did you mean 'accuracy'?"},
      {"t = dtrain.init(); t.hparams.to_dict()\nt.validate(acc=1, f1=1)\n",
       "loss", "'loss' was not reported; reported: acc, f1"},
      {"os.write(3, b'{\"type\": \"validation\", \"epochs\": 1, "
       "\"metrics\": {\"acc\": 1}}\\n')\nimport time\ntime.sleep(60)\n",
       "ac", "of these; did you mean 'acc'?"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.script);
    std::filesystem::remove(Starts());
    const CliResult result = CreateSearch(row.script, row.metric);
    EXPECT_EQ(result.code, 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(row.why));
    EXPECT_EQ(ReadFile(Starts()), "x");
  }
}

// It may be wrong in one trial only.
TEST_F(ScriptSearchTest, AMetricThatAnotherTrialReportedFailsOneTrial) {
  const CliResult result = CreateSearch(
      "t = dtrain.init(); h = t.hparams.to_dict()\n"
      "first = not os.path.exists('" +
      (dtrain_.directory() / "one").string() + "')\nopen('" +
      (dtrain_.directory() / "one").string() +
      "', 'w').close()\n"
      "for e in t.epochs(2):\n"
      "  t.validate({'acc' if first else 'other': 1})\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, EndsWith(": 2 of 3 trials failed\n"));
}

TEST_F(ScriptSearchTest, AnUnreadHyperparameterEndsTheSearch) {
  struct Row {
    std::string script;
    std::string unread;  // empty: the search ends well
    std::string arguments;
    std::vector<std::string> options;
  };
  const std::string init = "t = dtrain.init()\nh = t.hparams\n";
  const std::string loop = "for e in t.epochs(2):\n  t.validate(acc=e)\n";
  const std::vector<Row> rows = {
      {"import argparse\np = argparse.ArgumentParser()\n"
       "p.add_argument('--x', type=float, default=1)\na = p.parse_args()\n" +
           init + "for e in t.epochs(2):\n  t.validate(acc=a.x)\n",
       "net.depth, x"},
      {init + "h.x\n" + loop, "net.depth"},
      {init + "h.net.depth\n" + loop + "h.x\n", "x"},
      {init + "h.x, h['net']['depth']\n" + loop, ""},
      {init + "print(h)\n" + loop, ""},
      {init + "h.net.depth\n" + loop, "", " --x {x}"},
      {init + "h.net.depth\nos.environ['DTRAIN_HPARAM_x']\n" + loop, ""},
      {init + "h.x\nif h.x > 1: h.net.depth\n" + loop, ""},
      {init + "h.x\n" + loop + "  h.net.depth\n", ""},
      {init + "h.x\ndef deep(net):\n  net.depth\n" + loop + "deep(h.net)\n",
       ""},
      {init + loop, "", "", {"--allow-unread"}},
      {init + loop,
       "",
       "",
       {"--set",
        "searcher={name: single, metric: acc, max_length: "
        "{epochs: 2}}",
        "--set", "hyperparameters={x: 1}"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.script + row.arguments);
    const CliResult result =
        CreateSearch(row.script, "acc", row.options, row.arguments);
    EXPECT_EQ(result.code, row.unread.empty() ? 0 : 1) << result.err;
    if (row.unread.empty()) continue;
    EXPECT_THAT(result.err,
                AllOf(HasSubstr(".1 was validated and has not read " +
                                row.unread + ", which "),
                      HasSubstr("in the script, or create it with "
                                "--allow-unread")));
  }
}

// An experiment of an earlier version goes on by its rules.
TEST_F(ScriptSearchTest, ARecordedExperimentMayLeaveHyperparametersUnread) {
  const CliResult result = CreateSearch(
      "t = dtrain.init()\nfor e in t.epochs(2):\n"
      "  t.validate(acc=e)\n",
      "acc", {"--set", "rules=1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("not read by any trial: net.depth, x"));
}

TEST_F(FailedTrialsTest, TheReasonIsTheCause) {
  dtrain_.Write("bar.py",
                "import sys\n"
                "sys.stderr.write('\\r 55%|###| 11/20 [00:00, 8.1it/s]\\n')\n"
                "sys.stderr.write('error: sample 371 cannot be read\\n')\n"
                "sys.stderr.write('\\r 60%|###| 12/20 [00:00, 8.1it/s]')\n"
                "sys.exit(3)\n");
  dtrain_.Write("logger.py",
                "import atexit, sys\n"
                "atexit.register(lambda: print('logger: find the files in "
                "./logs', file=sys.stderr))\n"
                "raise ValueError('no such column')\n");
  for (const auto& [script, reason] :
       {std::pair("bar.py",
                  "exited with code 3: error: sample 371 cannot be read"),
        std::pair("logger.py",
                  "exited with code 1: ValueError: no such column")}) {
    Create(std::string("entrypoint: python3 ") + script +
           "\nmax_restarts: 0\nresources: {slots: cpu}\n"
           "searcher: {name: single, metric: acc, max_length: 2}\n");
    EXPECT_EQ(Run({"trials", "last", "--json"}).Json()["trials"][0]["reason"],
              reason);
  }
}

}  // namespace
}  // namespace dtrain

// `reproduce`: refusals, comparisons, and real trials that are run again.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/fault_yaml.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class ReproduceTest : public testing::Test {
 protected:
  ReproduceTest() { FillSampleStore(dtrain_.store()); }

  void ExpectRefused(std::vector<std::string> arguments, int code,
                     const std::string& message) const {
    arguments.insert(arguments.begin(), "reproduce");
    const CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(dtrain_.Run({"describe", "4"}).code, 3);
  }
  CliResult Compare(std::vector<std::string> more) const {
    more.insert(more.begin(), "reproduce");
    more.emplace_back("--json");
    return dtrain_.Run(more);
  }

  CliRunner dtrain_;
};

TEST_F(ReproduceTest, RefusesInvalidArgumentsAndUntrainedTrials) {
  ExpectRefused({"9.1"}, 3, "no experiment 9");
  ExpectRefused({"1.7"}, 3, "has no trial 1.7");
  ExpectRefused({"1"}, 2, "'1' is an experiment; give one of its trials");
  ExpectRefused({"1.1", "--tolerance", "much"}, 2, "--tolerance: 'much'");
  ExpectRefused({"1.1", "--tolerance", "-1"}, 2, "--tolerance: '-1'");
  ExpectRefused({"1.1", "--against", "1.7"}, 3, "has no trial 1.7");
  ExpectRefused({"1.1"}, 2, "has not trained");
}

TEST_F(ReproduceTest, RefusesATrialThatHasNotEnded) {
  Store store = Store::OpenForWriting(StoreLayout(dtrain_.store()));
  store.Write([](StoreWriter& writer) {
    writer.AddTrial({.id = {2, 1}, .request_id = "r"});
    writer.SetTrialState({2, 1}, State::kRunning, Timestamp(1));
  });
  ExpectRefused({"2.1"}, 2, "trial 2.1 is RUNNING; reproduce it after");
}

TEST_F(ReproduceTest, FindsATrialEqualToItself) {
  const CliResult result = Compare({"1.2", "--against", "1.2"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.Json()["equal"], true);
  EXPECT_EQ(result.Json()["metrics"], 4);  // one is NaN
  EXPECT_THAT(dtrain_.Run({"reproduce", "1.2", "--against", "1.2"}).out,
              HasSubstr("trial 1.2 has the same 4 metrics as 1.2, bit for "
                        "bit\n"));
}

TEST_F(ReproduceTest, ReportsTheLargestDifference) {
  const CliResult result = Compare({"1.1", "--against", "1.2"});
  EXPECT_EQ(result.code, 4);
  const json document = result.Json();
  EXPECT_EQ(document["equal"], false);
  EXPECT_EQ(document["different"], 3);
  EXPECT_EQ(document["missing"], 0);
  EXPECT_DOUBLE_EQ(document["largest_difference"], 2.0 / 3);
  EXPECT_EQ(document["largest_at"]["kind"], "validation");
  EXPECT_EQ(document["largest_at"]["batches"], 100);
  EXPECT_THAT(dtrain_.Run({"reproduce", "1.1", "--against", "1.2"}).out,
              AllOf(HasSubstr("trial 1.2 differs from 1.1 in 3 of 3 metrics"),
                    HasSubstr("of validation "), HasSubstr(" at batch 100: ")));
}

TEST_F(ReproduceTest, AcceptsDifferencesWithinTolerance) {
  EXPECT_EQ(Compare({"1.1", "--against", "1.2", "--tolerance", "0.6"}).code, 4);
  EXPECT_EQ(Compare({"1.1", "--against", "1.2", "--tolerance", "0.7"}).code, 0);
}

TEST_F(ReproduceTest, RefusesMissingValues) {
  const CliResult result =
      Compare({"1.2", "--against", "1.1", "--tolerance", "0.7"});
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.Json()["missing"], 1);
}

// Scripts whose Python finds the packages in the directory `site`.
class PythonRecordTest : public testing::Test {
 protected:
  PythonRecordTest() {
    const std::string report =
        "import os\n"
        "os.write(3, b'{\"type\":\"validation\",\"batches\":1,\"metrics\":"
        "{\"loss\":1}}\\n')\n";
    dtrain_.Write("train.py", report);
    WriteProgram("direct", "#!/usr/bin/env python3\n" + report);
    WriteProgram("run.sh", "#!/bin/sh\nexec python3 train.py\n");
    // As pip writes programs of interpreters with a long path.
    WriteProgram("long",
                 "#!/bin/sh\n'''exec' python3 \"$0\" \"$@\"\n' '''\n" + report);
    Install("Some_Package-1.2.3.dist-info/METADATA", "");
    Install("other.egg-info/PKG-INFO", "Name: other\nVersion: 4.5\n");
    Install("torch-2.9.0+cu126.dist-info/METADATA", "");
    Install("torch/version.py",
            "from typing import Optional\n__version__ = '2.9.0+cu126'\n"
            "cuda: Optional[str] = '12.6'\n");
  }
  void WriteProgram(const std::string& name, const std::string& text) const {
    std::filesystem::permissions(dtrain_.Write(name, text),
                                 std::filesystem::perms::owner_all);
  }
  void Install(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(
        (dtrain_.directory() / "site" / file).parent_path());
    dtrain_.Write("site/" + file, text);
  }
  // Returns the id of a new experiment.
  std::string Create(const std::string& entrypoint,
                     std::vector<std::string> options = {}) const {
    dtrain_.Write(
        "x.yaml",
        "entrypoint: " + entrypoint +
            "\nsearcher: {name: single, metric: loss, max_length: 1}\n"
            "max_restarts: 0\nresources: {slots: \"cpu:1\"}\nenvironment: "
            "{environment_variables: {PYTHONPATH: " +
            (dtrain_.directory() / "site").string() + "}}\n");
    options.insert(options.begin(), {"create", "x.yaml", "--json"});
    const CliResult result = dtrain_.Run(options);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.Json()["experiment"].dump();
  }
  json Python(const std::string& experiment) const {
    return dtrain_.Run({"describe", experiment, "--json"})
        .Json()["provenance"]["python"];
  }

  const CliRunner dtrain_;
};

TEST_F(PythonRecordTest, HasThePackagesThatTheCommandFinds) {
  for (const char* entrypoint :
       {"python3 train.py", "[env, A=b, python3, train.py]", "./direct",
        "python3 -m train", "python3 -u train.py", "[sh, run.sh]",
        "[sh, -eu, run.sh]", "./run.sh", "./long",
        "[bash, -c, \"# first\\n  A=b exec python3 train.py\"]",
        "[sh, -c, 'for i in 1; do if true; then sh run.sh; fi; done']",
        "[sh, -c, \"cd . && 'python3' train.py # not ./python3\"]"}) {
    const std::string id = Create(entrypoint);
    const json python = Python(id);
    ASSERT_TRUE(python.is_object()) << entrypoint;
    EXPECT_EQ(python["packages"].value("some-package", ""), "1.2.3");
    EXPECT_EQ(python["packages"].value("other", ""), "4.5");
    EXPECT_EQ(python["packages"].value("torch", ""), "2.9.0+cu126");
    EXPECT_EQ(python["cuda"], "12.6");
    const auto& executable = python["executable"].get_ref<const std::string&>();
    EXPECT_THAT(executable, testing::StartsWith("/"));
    EXPECT_THAT(dtrain_.Run({"describe", id}).out,
                AllOf(HasSubstr("  python        3."),
                      HasSubstr(executable + ", torch for CUDA 12.6, ")));
  }
}

TEST_F(PythonRecordTest, SaysThatPythonIsNotKnown) {
  WriteProgram("python3", "#!/bin/sh\nexit 0\n");
  dtrain_.Write("env.sh", "");
  for (const char* text :
       {". ./env.sh; python3 train.py", "PATH=$PATH:/none; python3 train.py",
        "PYTHONPATH= python3 train.py", "export PATH=$PATH; python3 train.py",
        "P=python3; $P train.py", "./python3 -V; python3 train.py",
        "cd .; ./python3; exec $(which python3) train.py",
        "eval python3 train.py", "sh -c 'true'; \\\\python3 train.py"}) {
    const std::string id = Create("[sh, -c, \"" + std::string(text) + "\"]");
    EXPECT_EQ(Python(id), nullptr) << text;
    EXPECT_THAT(dtrain_.Run({"describe", id}).out,
                HasSubstr("  python        not recorded: the command does not "
                          "start Python itself"));
  }
}

// Other versions are named once, where trials are to run with them.
TEST_F(PythonRecordTest, ResumeComparesIt) {
  const auto site = dtrain_.directory() / "site";
  const std::string executable =
      Python(Create("[sh, run.sh]"))["executable"].get<std::string>();
  const auto other = dtrain_.directory() / "other";
  std::filesystem::create_directory(other);
  std::filesystem::create_symlink(executable, other / "python3");
  const auto rename = [&](const char* before, const char* after) {
    std::filesystem::rename(site / before, site / after);
  };
  struct Case {
    const char* what;
    std::function<void()> change;
    std::vector<std::string> expected;
    bool other_interpreter = false;
  };
  const std::vector<Case> cases = {
      {.what = "same", .change = [] {}, .expected = {}},
      {.what = "other version",
       .change =
           [&] {
             rename("Some_Package-1.2.3.dist-info",
                    "Some_Package-2.0.dist-info");
           },
       .expected = {"installed packages differ: some-package 1.2.3 -> 2.0;"}},
      {.what = "package missing",
       .change = [&] { std::filesystem::remove_all(site / "other.egg-info"); },
       .expected = {"installed packages differ: other 4.5 -> none;"}},
      {.what = "other CUDA",
       .change = [&] { Install("torch/version.py", "cuda = '13.0'\n"); },
       .expected = {"the CUDA of torch was 12.6, now it is 13.0;"}},
      {.what = "other interpreter",
       .change = [] {},
       .expected = {"Python was 3.", "(" + executable + "), now it is 3.",
                    "(" + (other / "python3").string() + ");"},
       .other_interpreter = true},
  };
  for (const Case& one : cases) {
    const std::string id = Create("[sh, run.sh]", {"--paused"});
    one.change();
    CliCall settings{.environment = {{"PYTHONPATH", site.string()}}};
    if (one.other_interpreter) {
      settings.environment["PATH"] = other.string() + ":" + std::getenv("PATH");
    }
    const CliResult resumed = dtrain_.Run({"resume", id}, settings);
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    for (const std::string& text : one.expected) {
      EXPECT_THAT(resumed.err, HasSubstr(text)) << one.what;
    }
    EXPECT_EQ(one.expected.empty(),
              resumed.err.find("differ") == std::string::npos)
        << one.what << resumed.err;
  }
}

TEST_F(PythonRecordTest, ReproduceAndDiffCompareIt) {
  const std::string id = Create("python3 train.py");
  std::filesystem::rename(
      dtrain_.directory() / "site/Some_Package-1.2.3.dist-info",
      dtrain_.directory() / "site/Some_Package-2.0.dist-info");
  std::filesystem::remove_all(dtrain_.directory() / "site/other.egg-info");
  Install("torch/version.py", "cuda: Optional[str] = None\n");
  const CliResult again =
      dtrain_.Run({"reproduce", id + ".1"},
                  {.environment = {{"PYTHONPATH",
                                    (dtrain_.directory() / "site").string()}}});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(
      again.err,
      AllOf(HasSubstr("warning: installed packages differ: other 4.5 -> none, "
                      "some-package 1.2.3 -> 2.0; results may differ"),
            HasSubstr("warning: the CUDA of torch was 12.6, now it is none;"),
            testing::Not(HasSubstr("Python was"))));
  EXPECT_THAT(dtrain_.Run({"diff", "1", "2", "--environment"}).out,
              AllOf(HasSubstr("-python.packages.some-package: 1.2.3"),
                    HasSubstr("+python.packages.some-package: 2.0"),
                    HasSubstr("-python.cuda: 12.6")));
}

// The process's number stands for what a resumed program does otherwise.
TEST_F(PythonRecordTest, SaysThatADifferingTrialWasResumed) {
  dtrain_.Write("train.sh",
                "for i in $(seq $DTRAIN_UNTIL); do\n"
                "  printf '{\"type\":\"validation\",\"epochs\":%d,\"metrics\":"
                "{\"loss\":%d}}\\n' $i $$ >&3\n"
                "done\n");
  dtrain_.Write("x.yaml",
                "entrypoint: [sh, train.sh]\n"
                "hyperparameters: {x: {type: double, minval: 0, maxval: 1}}\n"
                "searcher: {name: async_halving, metric: loss, max_length: "
                "{epochs: 4}, max_trials: 2, num_rungs: 2, divisor: 2, "
                "max_concurrent_trials: 1}\n"
                "max_restarts: 0\nresources: {slots: \"cpu:1\"}\n");
  ASSERT_EQ(dtrain_.Run({"create", "x.yaml"}).code, 0);
  const json trials =
      dtrain_.Run({"trials", "1", "--filter", "runs > 1", "--json"})
          .Json()["trials"];
  ASSERT_EQ(trials.size(), 1);
  const auto trial = trials[0]["trial"].get<std::string>();
  const CliResult again = dtrain_.Run({"reproduce", trial});
  EXPECT_EQ(again.code, 4);
  EXPECT_THAT(
      again.err,
      AllOf(HasSubstr("trial " + trial +
                      " was paused and resumed 1 "
                      "times; this run pauses only at the lengths"),
            HasSubstr("note: trial " + trial +
                      " was paused and resumed;"
                      " a program that does not save its random state")));
}

TEST_F(PythonRecordTest, KeepsTheMetricThatCountsTheLength) {
  dtrain_.Write("train.sh",
                "for i in $(seq $DTRAIN_UNTIL); do\n"
                "  printf '{\"type\":\"validation\",\"epochs\":%d,\"metrics\":"
                "{\"loss\":%d}}\\n' $i $i >&3\n"
                "done\n"
                "mkdir $DTRAIN_DIRECTORY/a; echo 1 > $DTRAIN_DIRECTORY/a/w\n"
                "printf '{\"type\":\"checkpoint\",\"epochs\":%d,\"path\":"
                "\"%s\"}\\n' $DTRAIN_UNTIL $DTRAIN_DIRECTORY/a >&3\n");
  dtrain_.Write("x.yaml",
                "entrypoint: [sh, train.sh]\n"
                "searcher: {name: single, metric: loss, max_time: 4, "
                "time_metric: steps}\n"
                "max_restarts: 0\nresources: {slots: \"cpu:1\"}\n");
  ASSERT_EQ(dtrain_.Run({"create", "x.yaml"}).code, 0);
  for (const char* command : {"reproduce", "continue"}) {
    const CliResult again = dtrain_.Run({command, "1.1", "--json"});
    ASSERT_EQ(again.code, 0) << again.err;
    const json searcher =
        dtrain_.Run({"describe", again.Json()["experiment"].dump(), "--json"})
            .Json()["config"]["searcher"];
    EXPECT_EQ(searcher["time_metric"], "steps") << command;
    EXPECT_EQ(searcher["max_time"], 4) << command;
  }
}

#ifdef DTRAIN_HAS_TRIALS

// Two trials at once, so that each has fewer threads than a trial alone.
constexpr char kDigits[] =
    "name: digits\n"
    "entrypoint: digits:LeNetTrial\n"
    "hyperparameters:\n"
    "  dataset: strokes\n"
    "  training_samples: 640\n"
    "  lr: {type: log, minval: -3, maxval: -1}\n"
    "  global_batch_size: 16\n"
    "searcher: {name: asha, metric: val_accuracy, smaller_is_better: false,\n"
    "           max_length: 40, max_trials: 4, num_rungs: 2, divisor: 2}\n"
    "scheduling_unit: 15\n"
    "reproducibility: {experiment_seed: 3}\n"
    "resources: {slots: \"cpu:2\"}\n";

class ReproduceRunTest : public testing::Test {
 protected:
  void Create(const std::string& yaml) const {
    const auto file = dtrain_.Write("in.yaml", yaml);
    const CliResult result = dtrain_.Run({"create", "in.yaml"});
    EXPECT_EQ(result.code, 0) << result.err;
    std::filesystem::remove(file);
  }
  // The first trial of experiment 1 that came to this end.
  std::string TrialThat(const std::string& state) const {
    const json rows = dtrain_.Run({"trials", "1", "--json"}).Json()["trials"];
    for (const json& row : rows) {
      if (row["state"] == state) return row["trial"];
    }
    ADD_FAILURE() << "none is " << state;
    return "1.1";
  }
  json ExpectEqual(const std::string& trial) const {
    const CliResult result = dtrain_.Run({"reproduce", trial, "--json"});
    EXPECT_EQ(result.code, 0) << result.err;
    const json document = result.Json();
    EXPECT_EQ(document["reproduction"]["equal"], true) << result.out;
    EXPECT_EQ(document["reproduction"]["different"], 0);
    return document;
  }

  CliRunner dtrain_;
};

TEST_F(ReproduceRunTest, IsBitIdentical) {
  Create(kDigits);
  const json promoted = ExpectEqual(TrialThat("COMPLETED"));
  EXPECT_GT(promoted["reproduction"]["metrics"], 8);
  const json stopped = ExpectEqual(TrialThat("STOPPED"));
  EXPECT_LT(stopped["reproduction"]["metrics"],
            promoted["reproduction"]["metrics"]);
}

TEST_F(ReproduceRunTest, ReportsEquality) {
  Create(FaultYaml("x: 0.3", 40));
  const CliResult result = dtrain_.Run({"reproduce", "1.1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("trial 2.1 has the same "));
  EXPECT_THAT(result.out, HasSubstr(" as 1.1, bit for bit\n"));
  EXPECT_THAT(dtrain_.Run({"describe", "2"}).out,
              HasSubstr("  reproduces    1.1\n"));
}

TEST_F(ReproduceRunTest, ReportsTheDifferingMetric) {
  Create(FaultYaml("x: 0.3", 40));
  {
    Store store = Store::OpenForWriting(StoreLayout(dtrain_.store()));
    store.Write([](StoreWriter& writer) {
      writer.AddMetrics({1, 1}, MetricKind::kValidation, 20, 1,
                        {{"loss", 0.125}}, Timestamp(1));
    });
  }
  const CliResult result = dtrain_.Run({"reproduce", "1.1"});
  EXPECT_EQ(result.code, 4) << result.err;
  EXPECT_THAT(result.out, HasSubstr("of validation loss at batch 20: "));
  EXPECT_THAT(result.out, HasSubstr("instead of 0.125"));
  EXPECT_EQ(dtrain_.Run({"reproduce", "1.1", "--tolerance", "1"}).code, 0);
}

TEST_F(ReproduceRunTest, StartsFromTheSameCheckpoint) {
  Create(FaultYaml("x: 0.3", 40));
  ASSERT_EQ(dtrain_.Run({"continue", "1.1"}).code, 0);
  ASSERT_EQ(dtrain_.Run({"delete", "1", "--yes"}).code, 0);
  ExpectEqual("2.1");
}

TEST_F(ReproduceRunTest, ReportsThatTheTrialWasRestarted) {
  dtrain_.Write("in.yaml", FaultYaml("x: 0.3, crash_at: 30, once: true", 40));
  ASSERT_EQ(dtrain_.Run({"create", "in.yaml", "--set", "max_restarts=1"}).code,
            0);
  const CliResult result = dtrain_.Run({"reproduce", "1.1"});
  EXPECT_THAT(result.err,
              HasSubstr("trial 1.1 was restarted after failures (1)"));
  EXPECT_EQ(result.code, 0) << result.out;
}

#endif  // DTRAIN_HAS_TRIALS

}  // namespace
}  // namespace dtrain

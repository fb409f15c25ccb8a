// New experiments that are made of recorded ones: `rerun`, `config EXP.T` and
// `create --from`. The files that the recorded ones ran from are gone.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/layout.h"
#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// The loss depends on the hyperparameter and the seed.
constexpr char kPlain[] = R"(x=$1
while [ -e "${HOLD:-/none}" ]; do sleep 0.05; done
for e in 1 2 3; do echo "epoch $e"; echo "loss=$x$DTRAIN_SEED"; done
)";
constexpr char kLinked[] = R"(x=$1$(cat ../data/a.csv)
for e in 1 2 3; do echo "epoch $e"; echo "loss=$x$DTRAIN_SEED"; done
)";
constexpr char kPython[] = R"(
import argparse, dtrain
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
lr = parser.parse_args().lr
trial = dtrain.init()
for epoch in trial.epochs(3):
    trial.validate(loss=lr * trial.seed / (epoch + 1))
)";

class RerunTest : public testing::Test {
 protected:
  RerunTest() {
    fs::create_directory(dtrain_.directory() / "proj");
    fs::create_directory(dtrain_.directory() / "data");
    dtrain_.Write("data/a.csv", "5");
  }

  // Runs `dtrain run` in proj with these options.
  void Run(const std::vector<std::string>& options) const {
    std::vector<std::string> words = {
        "sh",      "-c",           "cd proj && exec dtrain \"$@\"",
        "sh",      "run",          "--metric",
        "loss",    "--max-length", "epochs=3",
        "--slots", "cpu:1"};
    words.insert(words.end(), options.begin(), options.end());
    const CliResult result = dtrain_.RunProgram(words);
    ASSERT_EQ(result.code, 0) << result.err;
  }
  // A search of lr and opt by kPlain.
  void RunSearch(const std::vector<std::string>& options = {}) const {
    fs::create_directories(dtrain_.directory() / "proj");
    dtrain_.Write("proj/train.sh", kPlain);
    std::vector<std::string> words = {"--hp",         "lr=log(1e-3,1)",
                                      "--hp",         "opt=[adam,sgd]",
                                      "--pattern",    "loss=loss=(\\S+)",
                                      "--pattern",    "step=epoch (\\d+)",
                                      "--max-trials", "3"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "sh", "train.sh", "{lr}", "{opt}"});
    Run(words);
    fs::remove_all(dtrain_.directory() / "proj");
  }

  json Described(const std::string& target) const {
    return dtrain_.Run({"describe", target, "--json"}).Json();
  }
  std::vector<int> Experiments() const {
    std::vector<int> ids;
    const json list = dtrain_.Run({"list", "-a", "--json"}).Json();
    for (const json& one : list["experiments"]) ids.push_back(one["id"]);
    return ids;
  }
  bool AreEqual(const std::string& a, const std::string& b) const {
    return dtrain_.Run({"reproduce", a, "--against", b}).code == 0;
  }
  void ExpectRefused(const std::vector<std::string>& words, int code,
                     const std::string& message) const {
    const std::vector<int> before = Experiments();
    const CliResult result = dtrain_.Run(words);
    const std::string command = testing::PrintToString(words);
    EXPECT_EQ(result.code, code) << command << result.err;
    EXPECT_THAT(result.err, HasSubstr(message)) << command;
    EXPECT_EQ(Experiments(), before) << command;
  }

  const CliRunner dtrain_;
};

struct Program {
  const char* name;
  const char* file;  // of proj
  const char* text;
  std::vector<std::string> options;  // with the command
  std::size_t links = 0;
};

class RerunProgramTest : public RerunTest,
                         public testing::WithParamInterface<Program> {};

// Neither needs the files that the experiment ran from.
TEST_P(RerunProgramTest, TrainsTheSameFromTheStoredFiles) {
  const Program& program = GetParam();
  dtrain_.Write(std::string("proj/") + program.file, program.text);
  std::vector<std::string> words = {"--hp", "lr=log(1e-3,1)", "--max-trials",
                                    "2"};
  words.insert(words.end(), program.options.begin(), program.options.end());
  Run(words);
  fs::remove_all(dtrain_.directory() / "proj");

  const CliResult rerun = dtrain_.Run({"rerun", "1.2"});
  const CliResult again = dtrain_.Run({"create", "--from", "1"});

  EXPECT_EQ(rerun.code, 0) << rerun.err;
  EXPECT_TRUE(AreEqual("1.2", "2.1"));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(AreEqual("1.1", "3.1"));
  EXPECT_TRUE(AreEqual("1.2", "3.2"));
  for (const char* id : {"2", "3"}) {
    const json made = Described(id);
    EXPECT_EQ(made["context"]["hash"], Described("1")["context"]["hash"]);
    EXPECT_EQ(made["context"]["links"].size(), program.links);
  }
  // Of a copy, too.
  ASSERT_EQ(dtrain_.Run({"delete", "1", "--yes"}).code, 0);
  EXPECT_EQ(dtrain_.Run({"rerun", "2.1"}).code, 0);
  EXPECT_TRUE(AreEqual("2.1", "4.1"));
}

INSTANTIATE_TEST_SUITE_P(
    All, RerunProgramTest,
    testing::Values(
        Program{"PlainCommand",
                "train.sh",
                kPlain,
                {"--pattern", "loss=loss=(\\S+)", "--pattern",
                 "step=epoch (\\d+)", "--", "sh", "train.sh", "{lr}"}},
        Program{"LinkFound",
                "train.sh",
                kLinked,
                {"--pattern", "loss=loss=(\\S+)", "--pattern",
                 "step=epoch (\\d+)", "--", "sh", "train.sh", "{lr}"},
                1},
        Program{
            "LinkDeclared",
            "train.sh",
            kLinked,
            {"--link", "../data", "--pattern", "loss=loss=(\\S+)", "--pattern",
             "step=epoch (\\d+)", "--", "sh", "train.sh", "{lr}"},
            1},
        Program{"PythonModule",
                "train.py",
                kPython,
                {"--", "python3", "train.py", "--lr", "{lr}"}}),
    [](const auto& one) { return one.param.name; });

TEST_F(RerunTest, RecordsWhatItWasMadeOf) {
  RunSearch({"--label", "day"});
  ASSERT_EQ(dtrain_
                .Run({"rerun", "1.2", "--name", "again", "--label", "night",
                      "--set", "hyperparameters.lr=0.5"})
                .code,
            0);
  ASSERT_EQ(dtrain_
                .Run({"create", "--from", "1", "--set", "searcher.max_trials=2",
                      "--label", "late"})
                .code,
            0);

  const json rerun = Described("2");
  EXPECT_EQ(rerun["provenance"]["reruns"], "1.2");
  EXPECT_EQ(rerun["labels"], json({"day", "night"}));
  EXPECT_EQ(rerun["config"]["searcher"]["name"], "single");
  EXPECT_EQ(rerun["config"]["searcher"]["max_length"], json({{"epochs", 3}}));
  EXPECT_EQ(rerun["config"]["hyperparameters"]["lr"], 0.5);
  const json from = Described("3");
  EXPECT_EQ(from["provenance"]["created_from"], 1);
  EXPECT_EQ(from["labels"], json({"day", "late"}));
  EXPECT_EQ(from["config"]["searcher"]["name"], "random");
  EXPECT_EQ(from["trials"], 2);
  EXPECT_THAT(dtrain_.Run({"list"}).out, AllOf(HasSubstr("again (reruns 1.2) "),
                                               HasSubstr("train (from 1) ")));
}

// The seed is that of the trial, unless --set changes seeds.
TEST_F(RerunTest, KeepsTheSeedUnlessItIsSet) {
  RunSearch();
  struct Row {
    std::vector<std::string> set;
    bool same;
  };
  const json seed = Described("1.3")["seed"];
  int id = 1;
  for (const Row& it : {Row{{}, true}, Row{{"hyperparameters.lr=0.5"}, true},
                        Row{{"reproducibility.deterministic=true"}, true},
                        Row{{"reproducibility.experiment_seed=7"}, false},
                        Row{{"reproducibility={experiment_seed: 7}"}, false},
                        Row{{"reproducibility.trial_seed=7"}, false},
                        Row{{"reproducibility.trial_seed=null"}, false}}) {
    std::vector<std::string> words = {"rerun", "1.3"};
    for (const std::string& set : it.set) {
      words.insert(words.end(), {"--set", set});
    }
    const CliResult result = dtrain_.Run(words);
    ASSERT_EQ(result.code, 0) << result.err;
    const json made = Described(std::to_string(++id) + ".1");
    EXPECT_EQ(made["seed"] == seed, it.same) << testing::PrintToString(it.set);
  }
  // Each is the seed that was set, or follows from it.
  EXPECT_EQ(Described("7.1")["seed"], 7);
  EXPECT_EQ(Described("5.1")["seed"], Described("6.1")["seed"]);
}

TEST_F(RerunTest, TrainsToTheLengthOfTheSearch) {
  dtrain_.Write("proj/train.sh", kPlain);
  Run({"--hp", "lr=log(1e-3,1)", "--max-trials", "8", "--searcher", "asha",
       "--set", "searcher.divisor=2", "--pattern", "loss=loss=(\\S+)",
       "--pattern", "step=epoch (\\d+)", "--", "sh", "train.sh", "{lr}"});
  const json stopped =
      dtrain_.Run({"trials", "1", "--filter", "state == STOPPED", "--json"})
          .Json()["trials"];
  ASSERT_FALSE(stopped.empty());
  const auto trial = stopped[0]["trial"].get<std::string>();

  const CliResult result = dtrain_.Run({"rerun", trial});

  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("note: the search stopped trial " + trial +
                                    " after 1 "
                                    "epoch; this run trains 3 epochs\n"));
  EXPECT_EQ(Described("2.1")["batches"], 3);
}

// A trial that starts from a checkpoint does so again, from the copy that its
// experiment keeps.
TEST_F(RerunTest, StartsFromTheCheckpointOfTheExperiment) {
  dtrain_.Write("proj/train.py", R"(
import dtrain
trial = dtrain.init()
start = trial.restore()
begin = float((start / "w").read_text()) if start else 0.0
for epoch in trial.epochs(2):
    trial.validate(loss=begin + epoch)
    with trial.checkpoint() as path:
        (path / "w").write_text(str(begin + 10))
)");
  Run({"--", "python3", "train.py"});
  ASSERT_EQ(dtrain_.Run({"continue", "1"}).code, 0);
  ASSERT_EQ(dtrain_.Run({"delete", "1", "--yes"}).code, 0);

  const CliResult result = dtrain_.Run({"rerun", "2.1"});
  const CliResult again = dtrain_.Run({"create", "--from", "2"});

  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(AreEqual("2.1", "3.1"));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(AreEqual("2.1", "4.1"));
  const CliResult scratch = dtrain_.Run(
      {"rerun", "2.1", "--set", "searcher.source_checkpoint_uuid=null"});
  ASSERT_EQ(scratch.code, 0) << scratch.err;
  EXPECT_FALSE(AreEqual("2.1", "5.1"));
}

// What a program needs of its environment is not recorded.
TEST_F(RerunTest, TakesSecretsFromTheEnvironment) {
  dtrain_.Write("proj/train.sh", "echo loss=$SECRET\n");
  dtrain_.Write("proj/x.yaml",
                "entrypoint: sh train.sh\n"
                "metrics: {loss: 'loss=(\\S+)'}\n"
                "searcher: {name: single, metric: loss}\n"
                "max_restarts: 0\nresources: {slots: \"cpu:1\"}\n"
                "environment: {environment_variables: [SECRET]}\n");
  const CliCall with{.environment = {{"SECRET", "0.625"}}};
  ASSERT_EQ(dtrain_.Run({"create", "proj/x.yaml"}, with).code, 0);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"rerun", "1.1"}, {"create", "--from", "1"}}) {
    EXPECT_EQ(dtrain_.Run(words, with).code, 0) << words[0];
    const CliResult without = dtrain_.Run(words);
    EXPECT_NE(without.code, 0) << words[0];
    EXPECT_THAT(without.err,
                HasSubstr("warning: the value of environment variable SECRET "
                          "was not recorded"))
        << words[0];
  }
  EXPECT_TRUE(AreEqual("1.1", "2.1"));
  EXPECT_TRUE(AreEqual("1.1", "4.1"));
}

// Its YAML and the files give what `rerun` gives.
TEST_F(RerunTest, ConfigOfATrialTrainsIt) {
  RunSearch();
  ASSERT_EQ(dtrain_.Run({"config", "1.2", "--export", "copy"}).code, 0);
  const CliResult printed = dtrain_.Run({"config", "1.2"});
  EXPECT_EQ(printed.code, 0) << printed.err;
  std::ifstream exported(dtrain_.directory() / "copy/trial-1.2.yaml");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(exported), {}),
            printed.out);

  const CliResult made = dtrain_.Run({"create", "copy/trial-1.2.yaml"});

  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(AreEqual("1.2", "2.1"));
  EXPECT_EQ(dtrain_.Run({"config", "1.2", "--json"}).Json()["searcher"]["name"],
            "single");
}

TEST_F(RerunTest, LinksWhatCreateFromIsGiven) {
  RunSearch();
  const CliResult made =
      dtrain_.Run({"create", "--from", "1", "--link", "../data", "-q"});
  ASSERT_EQ(made.code, 0) << made.err;
  const json links = Described("2")["context"]["links"];
  ASSERT_EQ(links.size(), 1u);
  EXPECT_EQ(links[0]["path"], "../data");
  EXPECT_EQ(links[0]["declared"], true);
}

TEST_F(RerunTest, CreateFromPlansAndPauses) {
  RunSearch();
  const CliResult plan =
      dtrain_.Run({"create", "--from", "1", "--dry-run", "--json"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  EXPECT_EQ(plan.Json()["context"]["files"], 1);
  EXPECT_THAT(Experiments(), ElementsAre(1));
  ASSERT_EQ(dtrain_.Run({"create", "--from", "1", "--paused"}).code, 0);
  ASSERT_EQ(dtrain_.Run({"resume", "2"}).code, 0);
  EXPECT_TRUE(AreEqual("1.3", "2.3"));
}

TEST_F(RerunTest, RefusalsSayWhatToDoAndRecordNothing) {
  RunSearch();
  RunSearch();
  ASSERT_EQ(dtrain_.Run({"delete", "2", "--yes"}).code, 0);
  struct Row {
    std::vector<std::string> words;
    int code;
    std::string message;
  };
  for (const Row& it : {
           Row{{"rerun", "1"},
               2,
               "'1' is an experiment; give one of its trials, such as 1.1"},
           Row{{"rerun", "1.7"},
               3,
               "experiment 1 has no trial 1.7; 'dtrain trials 1' lists"},
           Row{{"rerun", "2.1"}, 3, "no experiment 2 in "},
           Row{{"rerun", "1.x"}, 2, "'1.x' is not a valid ID"},
           Row{{"rerun", "1.1", "--set", "nmae=x"}, 2, "did you mean 'name'?"},
           Row{{"rerun", "1.1", "--set", "hyperparameters.lr=fast"},
               2,
               "hyperparameters.lr was 0."},
           Row{{"rerun", "1.1", "--set", "context.links=[/data]"},
               2,
               "is an absolute path"},
           Row{{"create", "--from", "1.1"},
               2,
               "'1.1' is not a valid experiment ID"},
           Row{{"create", "--from", "2"}, 3, "no experiment 2 in "},
           Row{{"create", "--from", "1", "x.yaml"},
               2,
               "--from: takes the YAML and the files of experiment 1, so it "
               "cannot be combined with 'x.yaml'"},
           Row{{"create"}, 2, "CONFIG is required, or --from EXP"},
           Row{{"create", "--from", "1", "--test"},
               2,
               "'dtrain config 1 --export DIR'"},
           Row{{"create", "--from", "1", "--set", "searcher.name=randm"},
               2,
               "did you mean 'random'?"},
           Row{{"create", "--from", "1", "--link", "/data"},
               2,
               "is an absolute path"},
           Row{{"config", "1.1", "--original"},
               2,
               "trial 1.1 was not submitted by itself; give its experiment"},
           Row{{"config", "1.7"}, 3, "experiment 1 has no trial 1.7"},
       }) {
    ExpectRefused(it.words, it.code, it.message);
  }
}

TEST_F(RerunTest, RefusesADamagedContext) {
  RunSearch();
  const fs::path context = StoreLayout(dtrain_.store()).Context(1);
  fs::permissions(context, fs::perms::owner_all);
  fs::permissions(context / "train.sh", fs::perms::owner_all);
  struct Row {
    std::string what;
    std::function<void()> damage;
    std::string message;
  };
  const std::vector<Row> rows = {
      {"changed",
       [&] { std::ofstream(context / "train.sh") << "echo loss=0\n"; },
       "train.sh: has changed since it was stored"},
      {"missing", [&] { fs::remove(context / "train.sh"); }, "train.sh"},
      {"gone", [&] { fs::remove_all(context); }, "context"}};
  for (const Row& it : rows) {
    it.damage();
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"rerun", "1.1"},
          {"create", "--from", "1"}}) {
      ExpectRefused(words, 5, it.message);
    }
  }
}

// Early versions recorded experiments without their files.
TEST_F(RerunTest, RefusesAProgramWithoutStoredFiles) {
  Store store = Store::OpenForWriting(StoreLayout(dtrain_.store()));
  RunSearch();
  const json config = Described("1")["config"];
  store.Write([&](StoreWriter& writer) {
    const std::int64_t id = writer.AddExperiment(
        {.name = "early",
         .searcher = "random",
         .metric = "loss",
         .config = config,
         .provenance = {{"context", dtrain_.directory().string()}},
         .created = Timestamp(1)});
    writer.AddTrial({.id = {id, 1},
                     .request_id = "r",
                     .hparams = {{"lr", 0.1}, {"opt", "sgd"}}});
  });
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"rerun", "2.1"}, {"create", "--from", "2"}}) {
    ExpectRefused(words, 2,
                  "experiment 2 has no stored context to run its program from");
  }
}

// A build without LibTorch records them and cannot run them; their files are
// in the program.
TEST(RerunModelTest, NeedsNoFilesForABuiltInModel) {
  const CliRunner dtrain;
  FillSampleStore(dtrain.store());
  const std::vector<std::string> more = {"--set", "max_restarts=0", "--set",
                                         "resources.slots=cpu"};
  std::vector<std::string> rerun = {"rerun", "1.2"};
  rerun.insert(rerun.end(), more.begin(), more.end());
  std::vector<std::string> from = {"create", "--from", "1", "--paused"};
  from.insert(from.end(), more.begin(), more.end());
  dtrain.Run(rerun);
  const CliResult made = dtrain.Run(from);
  EXPECT_EQ(made.code, 0) << made.err;
  const json fourth = dtrain.Run({"describe", "4", "--json"}).Json();
  EXPECT_EQ(fourth["config"]["hyperparameters"],
            json({{"lr", 0.25}, {"batch", 32}}));
  EXPECT_EQ(fourth["provenance"]["reruns"], "1.2");
  const json fifth = dtrain.Run({"describe", "5", "--json"}).Json();
  EXPECT_EQ(fifth["config"]["searcher"]["name"], "random");
  EXPECT_EQ(fifth["state"], "PAUSED");
  const CliResult linked =
      dtrain.Run({"create", "--from", "1", "--link", "data", "--paused"});
  EXPECT_EQ(linked.code, 2);
  EXPECT_THAT(linked.err, HasSubstr("only programs work in a copy of the "
                                    "context"));
}

// The best trials are trained again with seeds of their own, and a report shows
// both values.
TEST_F(RerunTest, ConfirmTrainsTheBestTrialsAgain) {
  RunSearch();
  const json best = dtrain_.Run({"best", "1", "-n", "2", "--json"}).Json();
  EXPECT_EQ(best["doubt"], nullptr) << "a random search has no model";

  const CliResult result =
      dtrain_.Run({"confirm", "1", "--top", "2", "--repeats", "3", "--json"});

  ASSERT_EQ(result.code, 0) << result.err;
  const json confirmed = result.Json()["confirmed"];
  ASSERT_EQ(confirmed.size(), 2u);
  json sources = json::array(), reported = json::array();
  for (const json& one : best["best"]) sources.push_back(one["trial"]);
  for (const json& one : confirmed) {
    EXPECT_EQ(one["n"], 3);
    EXPECT_NE(std::ranges::find(sources, one["trial"]), sources.end());
  }
  EXPECT_LE(confirmed[0]["mean"], confirmed[1]["mean"]);
  std::set<json> seeds;
  const json trials = dtrain_.Run({"trials", "2", "--json"}).Json()["trials"];
  for (const json& trial : trials) seeds.insert(trial["seed"]);
  EXPECT_EQ(seeds.size(), 6u);
  const json before = dtrain_.Run({"trials", "1", "--json"}).Json();
  for (const json& trial : before["trials"]) {
    EXPECT_FALSE(seeds.contains(trial["seed"])) << "a seed of the search";
  }
  EXPECT_THAT(dtrain_.Run({"list"}).out, HasSubstr("(confirms 1)"));
  const json confirms = Described("2")["provenance"]["confirms"];
  EXPECT_EQ(confirms["experiment"], 1);
  EXPECT_EQ(confirms["trials"].size(), 2u);
  const std::string report = dtrain_.Run({"report", "2", "--md"}).out;
  EXPECT_THAT(report, HasSubstr("| trial | reported | mean |"));
  const json doubt = dtrain_.Run({"best", "2", "--json"}).Json()["doubt"];
  EXPECT_EQ(doubt["source"], "repeats");
  EXPECT_EQ(doubt["mean"], confirmed[0]["mean"]);
}

TEST_F(RerunTest, ShowsTheOutputOfASingleTrialOnly) {
  RunSearch();
  EXPECT_THAT(dtrain_.Run({"rerun", "1.1"}).out, HasSubstr("epoch 1\n"));
  EXPECT_THAT(dtrain_.Run({"rerun", "1.1", "--repeats", "2"}).out,
              Not(HasSubstr("epoch 1\n")));
}

// What `confirm` says at its end, `resume` says when it was interrupted.
TEST_F(RerunTest, ResumeConcludesAConfirmation) {
  RunSearch();
  const std::string hold = dtrain_.Write("hold", "").string();
  const CliResult killed =
      dtrain_.Run({"confirm", "1", "--top", "2", "--repeats", "2"},
                  {.environment = {{"HOLD", hold}},
                   .signal_when = "2.1 started",
                   .signal = SIGKILL});
  ASSERT_EQ(killed.code, 137) << killed.err;

  const CliResult resumed = dtrain_.Run({"resume", "2"});

  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("trained again, the best mean first:\n"));
  EXPECT_THAT(resumed.out, HasSubstr(" of 2, all equal: the program may not "
                                     "use its seed\n"));
  const json confirmed = dtrain_.Run({"resume", "2", "--json"}).Json();
  ASSERT_EQ(confirmed["confirmed"].size(), 2u);
  EXPECT_EQ(confirmed["confirmed"][0]["n"], 2);
  const json other = dtrain_.Run({"resume", "1", "--json"}).Json();
  EXPECT_FALSE(other.contains("confirmed"));
}

TEST_F(RerunTest, ConfirmOnceHasAValueForEachTrial) {
  RunSearch();

  const CliResult result =
      dtrain_.Run({"confirm", "1", "--repeats", "1", "--json"});

  ASSERT_EQ(result.code, 0) << result.err;
  std::set<json> points;
  const json confirmed = result.Json()["confirmed"];
  for (const json& one : confirmed) {
    EXPECT_EQ(one["n"], 1);
    EXPECT_EQ(one["standard_error"], "NaN");
    points.insert(one["point"]);
  }
  EXPECT_EQ(points, (std::set<json>{1, 2, 3}));
}

// The model has seen all results of a loss without noise.
TEST_F(RerunTest, TheDoubtOfABestIsThatOfTheModel) {
  dtrain_.Write("train.sh", "awk \"BEGIN{print \\\"loss=\\\" ($1-0.3)^2}\"\n");
  dtrain_.Write("x.yaml",
                "entrypoint: {command: [sh, train.sh, '{x}']}\n"
                "metrics: {loss: 'loss=(\\S+)'}\n"
                "hyperparameters: {x: {type: double, minval: 0, maxval: 1}}\n"
                "reproducibility: {experiment_seed: 1}\n"
                "searcher: {name: bayesian_asha, metric: loss, max_trials: 16, "
                "num_rungs: 1, max_length: {epochs: 1}, "
                "max_concurrent_trials: 1, cost: length}\n");
  const CliResult run = dtrain_.Run({"create", "x.yaml"});
  ASSERT_EQ(run.code, 0) << run.err;

  const json best = dtrain_.Run({"best", "1", "-n", "0", "--json"}).Json();

  const json& doubt = best["doubt"];
  ASSERT_EQ(doubt["source"], "model");
  EXPECT_EQ(doubt["trial"], best["best"][0]["trial"]);
  const double mean = doubt["mean"], deviation = doubt["deviation"];
  EXPECT_NEAR(mean, best["best"][0]["value"].get<double>(), 3 * deviation);
  std::int64_t near = 0;
  for (const json& trial : best["best"]) {
    near += trial["value"].get<double>() < mean + deviation ? 1 : 0;
  }
  // The model is nearly sure of what it has seen.
  EXPECT_EQ(doubt["others"], near - 1);
}

TEST_F(RerunTest, ConfirmRefuses) {
  RunSearch();
  ExpectRefused({"confirm", "9"}, 3, "no experiment 9");
  for (const char* set : {"searcher.points=[]", "searcher.metric=other",
                          "searcher={name: random}"}) {
    ExpectRefused({"confirm", "1", "--set", set}, 2,
                  "follows from the trials that are trained again");
  }
  ExpectRefused({"confirm", "1", "--set", "max_restart=1"}, 2,
                "experiment 1: ");
  fs::create_directory(dtrain_.directory() / "proj");
  const std::vector<std::string> run = {"--pattern", "loss=loss=(\\S+)",
                                        "--pattern", "step=epoch (\\d+)"};
  std::vector<std::string> words = run;
  const std::string epochs = "for e in 1 2 3; do echo epoch $e; echo loss=";
  words.insert(words.end(), {"--", "sh", "-c", epochs + "1; done"});
  Run(words);
  ExpectRefused({"confirm", "2"}, 2, "searches no hyperparameter");
  EXPECT_EQ(
      dtrain_
          .Run({"run", "--metric", "loss", "--hp", "x=[1,2]", "--max-trials",
                "1", "--", "sh", "-c", "echo loss=nan", "{x}"})
          .code,
      1);
  ExpectRefused({"confirm", "3"}, 2, "has no trial with a finite value");
}

}  // namespace
}  // namespace dtrain

// Searches with searcher.repeats, through the program.

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/run/runner_lock.h"
#include "engine/store/layout.h"
#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// The loss of a trial is its number, or this line of a file `losses`.
class RepeatsCliTest : public testing::Test {
 protected:
  CliResult Create(const std::string& searcher, const std::string& more = "",
                   std::vector<std::string> options = {}) const {
    dtrain_.Write(
        "train.sh",
        "n=${1#*.}\n"
        "test $n = 3 && test -e \"$DTRAIN_CONTEXT/hold\" && { "
        "echo x > \"$DTRAIN_CONTEXT/held\"; read -r order; exit 1; }\n"
        "f=$DTRAIN_CONTEXT/losses; test -e \"$f\" && n=$(sed -n ${n}p \"$f\")\n"
        "echo loss: $n\n");
    dtrain_.Write(".detignore", "hold\nheld\nlosses\nmessages\n");
    dtrain_.Write("x.yaml",
                  "name: repeated\n"
                  "entrypoint: {command: [sh, train.sh, '{trial}']}\n"
                  "metrics: {loss: 'loss: (\\S+)'}\n"
                  "hyperparameters: {x: {type: double, minval: 0, maxval: 1}}\n"
                  "resources: {slots: 'cpu:1'}\n"
                  "searcher: {name: random, metric: loss, "
                  "max_length: {epochs: 1}, max_concurrent_trials: 1, " +
                      searcher + "}\n" + more);
    std::vector<std::string> words = {"create", "x.yaml", "--allow-unread"};
    words.insert(words.end(), options.begin(), options.end());
    return dtrain_.Run(words);
  }
  json Best() const {
    return dtrain_.Run({"list", "--json"}).Json()["experiments"][0]["best"];
  }
  std::string Text(const std::string& file) const {
    std::ostringstream text;
    text << std::ifstream(dtrain_.directory() / file).rdbuf();
    return text.str();
  }

  CliRunner dtrain_;
};

TEST_F(RepeatsCliTest, ExportHasPointsAndOneColumnAHyperparameter) {
  ASSERT_EQ(Create("max_trials: 1, repeats: 2").code, 0);

  ASSERT_EQ(dtrain_.Run({"export", "1", "--out", "tables"}).code, 0);

  const std::string table = Text("tables/trials.csv");
  EXPECT_THAT(table, HasSubstr("id,point,repeat,"));
  EXPECT_THAT(table, HasSubstr("hp.x"));
  EXPECT_THAT(table, Not(HasSubstr("hparams")));
}

TEST_F(RepeatsCliTest, ExportThatCannotWriteAllWritesNothing) {
  ASSERT_EQ(Create("max_trials: 1, repeats: 2").code, 0);
  fs::create_directory(dtrain_.directory() / "tables");
  dtrain_.Write("tables/metrics.csv", "kept");

  EXPECT_EQ(dtrain_.Run({"export", "1", "--out", "tables"}).code, 2);

  EXPECT_FALSE(fs::exists(dtrain_.directory() / "tables/trials.csv"));
  EXPECT_EQ(Text("tables/metrics.csv"), "kept");
  const CliResult file = dtrain_.Run({"export", "1", "--out", "x.yaml"});
  EXPECT_EQ(file.code, 2);
  EXPECT_THAT(file.err, HasSubstr("--out: cannot make 'x.yaml'"));
}

// The last point of the search reaches the target, which then ends an extended
// search no more.
TEST_F(RepeatsCliTest, ATargetThatTheLastPointReachesIsReachedOnce) {
  const CliResult run =
      Create("max_trials: 2, repeats: 2, smaller_is_better: false, target: 3");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(Best()["value"], 3.5);

  const CliResult more = dtrain_.Run({"extend", "1", "--max-trials", "+1"});

  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_THAT(more.out, HasSubstr("6 trials: 6 completed"));
  EXPECT_EQ(Best()["value"], 5.5);
}

// Its repeats that have ended count, for the record and for those who read it.
TEST_F(RepeatsCliTest, APointThatACancelCutsOffCounts) {
  dtrain_.Write("hold", "");
  ASSERT_EQ(Create("max_trials: 1, repeats: 3", "", {"--detach"}).code, 0);
  while (!fs::exists(dtrain_.directory() / "held")) std::this_thread::yield();

  ASSERT_EQ(dtrain_.Run({"cancel", "1"}).code, 0);
  (void)dtrain_.Run({"wait", "1"});

  EXPECT_EQ(Best()["value"], 1.5);
  EXPECT_EQ(dtrain_.Run({"best", "1", "--json"}).Json()["best"][0]["value"],
            1.5);
}

// Point 1 has the trial with the smallest loss, point 2 the smaller mean.
TEST_F(RepeatsCliTest, AllThatRankDoSoByPoints) {
  dtrain_.Write("losses", "1\n9\n3\n4\n");
  ASSERT_EQ(Create("max_trials: 2, repeats: 2").code, 0);
  ASSERT_EQ(Best()["value"], 3.5);

  const std::string report = dtrain_.Run({"report", "1", "--md"}).out;
  EXPECT_LT(report.find("| 1.3 (point 2) |"), report.find("| 1.1 (point 1) |"));
  for (const auto& [kind, shown] :
       std::vector<std::pair<std::string, std::string>>{
           {"history", "2 trials at their best validation"},
           {"edf", "  3.5 "},
           {"slice", "A  1.3 loss 3.5\n    B  1.1 loss 5"}}) {
    const CliResult plot = dtrain_.Run({"plot", "1", "--kind", kind});
    EXPECT_THAT(plot.err, HasSubstr("a point has the mean of its trials"));
    EXPECT_THAT(plot.out, HasSubstr(shown));
  }
  const std::string select =
      "import sqlite3; print(sqlite3.connect('store/dtrain.db').execute("
      "'SELECT id, point, repeat FROM v_trials').fetchall()[2])";
  EXPECT_EQ(dtrain_.RunProgram({"python3", "-c", select}).out,
            "('1.3', 2, 1)\n");
  // A search that begins with the best takes the best point first.
  dtrain_.Write("y.yaml", Text("x.yaml"));
  const CliResult next =
      dtrain_.Run({"create", "y.yaml", "--allow-unread", "--set",
                   "searcher.repeats=1", "--set", "searcher.warm_start=[1]"});
  EXPECT_THAT(next.out + next.err, HasSubstr("adds 2 points from 1.3, 1.1"));
}

TEST_F(RepeatsCliTest, TheDoubtOfABestIsTheSpreadOfItsRepeats) {
  dtrain_.Write("losses", "2\n6\n3\n6\n9\n9\n");
  ASSERT_EQ(Create("max_trials: 3, repeats: 2").code, 0);

  EXPECT_EQ(dtrain_.Run({"best", "1", "--json"}).Json()["doubt"],
            json({{"source", "repeats"},
                  {"trial", "1.1"},
                  {"mean", 4.0},
                  {"deviation", std::sqrt(8)},
                  {"others", 1}}));
  EXPECT_THAT(dtrain_.Run({"best", "1"}).err,
              HasSubstr("the repeats of the best point have 4 ± 2.83 (sd); 1 "
                        "other point is within that of it"));
}

// Where loss is a word, the trial fails. Points 1 and 2 lose a repeat, point 3
// both.
TEST_F(RepeatsCliTest, AFailedRepeatCountsNowhere) {
  dtrain_.Write("losses", "5\nno\nno\n2\nno\nno\n7\n7\n");
  ASSERT_EQ(Create("max_trials: 4, repeats: 2", "max_restarts: 0\n").code, 0);

  const CliResult plot = dtrain_.Run({"plot", "1", "--kind", "history"});
  EXPECT_THAT(plot.out, HasSubstr("4 trials failed"));
  const std::string report = dtrain_.Run({"report", "1", "--md"}).out;
  EXPECT_LT(report.find("| 1.4 (point 2) |"), report.find("| 1.1 (point 1) |"));
  EXPECT_LT(report.find("| 1.1 (point 1) |"), report.find("| 1.7 (point 4) |"));
  fs::remove(dtrain_.directory() / "losses");

  const CliResult confirmed =
      dtrain_.Run({"confirm", "1", "--repeats", "2", "--json"});

  ASSERT_EQ(confirmed.code, 0) << confirmed.err;
  std::set<std::string> trials;
  const json rows = confirmed.Json()["confirmed"];
  for (const json& one : rows) {
    trials.insert(one["trial"]);
  }
  EXPECT_EQ(trials, (std::set<std::string>{"1.4", "1.1", "1.7"}));
}

// Killed between the repeats of a point, a search ends as if undisturbed.
TEST_F(RepeatsCliTest, AKilledRunnerChangesNoPoint) {
  dtrain_.Write("hold", "");
  ASSERT_EQ(
      Create("max_trials: 2, repeats: 2", "max_restarts: 3\n", {"--detach"})
          .code,
      0);
  while (!fs::exists(dtrain_.directory() / "held")) std::this_thread::yield();
  const auto holder =
      RunnerLock::Holder(StoreLayout(dtrain_.store()).RunnerLock(1));
  ASSERT_TRUE(holder.has_value());
  ASSERT_EQ(::kill(static_cast<pid_t>(holder->pid), SIGKILL), 0);
  fs::remove(dtrain_.directory() / "hold");

  const CliResult resumed = dtrain_.Run({"resume", "1"});

  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(Best()["value"], 1.5);
  EXPECT_EQ(dtrain_.Run({"doctor"}).code, 0);
}

TEST_F(RepeatsCliTest, EachBetterPointTells) {
  ASSERT_EQ(Create("max_trials: 3, repeats: 2, smaller_is_better: false",
                   "notify: {on: [best, completed], command: [sh, -c, 'cat >> "
                   "\"$0\"', " +
                       (dtrain_.directory() / "messages").string() + "]}\n")
                .code,
            0);
  while (Text("messages").find("\"completed\"") == std::string::npos) {
    std::this_thread::yield();
  }
  // Only the last one that could not be sent yet is kept.
  EXPECT_THAT(Text("messages"), HasSubstr("\"event\":\"best\""));
  EXPECT_THAT(Text("messages"), HasSubstr("\"value\":5.5"));
}

TEST_F(RepeatsCliTest, PointsOfSeveralExperimentsAreNotOneGroup) {
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(Create("max_trials: 1, repeats: 2").code, 0);
  }
  EXPECT_THAT(dtrain_.Run({"plot", "1", "--group", "points"}).out,
              HasSubstr(" point=1 (2 trials)"));
  for (const std::string command : {"compare", "plot"}) {
    EXPECT_EQ(dtrain_.Run({command, "1", "--group", "points"}).code, 0);
    const CliResult two = dtrain_.Run({command, "1", "2", "--group", "points"});
    EXPECT_EQ(two.code, 2);
    EXPECT_THAT(two.err, HasSubstr("--group points takes one experiment"));
  }
}

TEST_F(RepeatsCliTest, MessagesToNobodyAreRefused) {
  for (const std::string option : {"--notify", "--notify-command"}) {
    const CliResult result =
        Create("max_trials: 1, repeats: 2", "", {option, ""});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr(option + ": is empty"));
  }
}

}  // namespace
}  // namespace dtrain

// list, trials, best, checkpoints, models and slots on a store that is there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class TableCommandsTest : public testing::Test {
 protected:
  TableCommandsTest() { FillSampleStore(dtrain_.store()); }

  CliRunner dtrain_;
};

TEST(EmptyStoreTest, ReadersCreateNoStore) {
  const CliRunner dtrain;
  const CliResult result = dtrain.Run({"list", "--json"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.Json(), json({{"experiments", json::array()}}));
  EXPECT_FALSE(std::filesystem::exists(dtrain.store()));
}

TEST_F(TableCommandsTest, ListsExperiments) {
  const auto rows = dtrain_.Run({"list", "--json"}).Json()["experiments"];
  ASSERT_EQ(rows.size(), 3);
  EXPECT_EQ(rows[0]["name"], "alpha");
  EXPECT_EQ(rows[0]["state"], "COMPLETED");
  EXPECT_EQ(rows[0]["progress"], 1.0);
  EXPECT_EQ(rows[0]["duration"], 5.0);
  EXPECT_EQ(rows[0]["trials"], 2);
  EXPECT_EQ(rows[0]["best"]["trial"], "1.2");
  EXPECT_EQ(rows[0]["best"]["value"], 0.25);
  EXPECT_EQ(rows[2]["error"], "every trial failed");
}

TEST_F(TableCommandsTest, ShowsThatARunnerDied) {
  const auto rows = dtrain_.Run({"list", "--json"}).Json()["experiments"];
  EXPECT_EQ(rows[1]["state"], "INTERRUPTED");
}

TEST_F(TableCommandsTest, EscapesNamesInText) {
  const CliResult result = dtrain_.Run({"list"});
  EXPECT_THAT(result.out, HasSubstr("\\x1b]0;owned\\x07../../x\\x0a$(touch"));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
}

TEST_F(TableCommandsTest, KeepsNamesInJson) {
  const auto rows = dtrain_.Run({"list", "--json"}).Json()["experiments"];
  EXPECT_EQ(rows[1]["name"], "\x1b]0;owned\x07../../x\n$(touch canary)");
}

TEST_F(TableCommandsTest, WritesCsv) {
  const CliResult result =
      dtrain_.Run({"list", "--csv", "--filter", "name==alpha"});
  EXPECT_EQ(result.out,
            "id,name,state,progress,searcher,trials,best,started,duration\r\n"
            "1,alpha,COMPLETED,1,random,2,0.25,1970-01-01T00:00:02.000000Z,"
            "5\r\n");
}

struct Selection {
  std::vector<std::string> arguments;
  std::vector<std::int64_t> ids;
};

class ListSelectionTest : public testing::TestWithParam<Selection> {};

TEST_P(ListSelectionTest, ShowsSelectedExperimentsInOrder) {
  const CliRunner dtrain;
  FillSampleStore(dtrain.store());
  std::vector<std::string> arguments = {"list", "--json"};
  arguments.insert(arguments.end(), GetParam().arguments.begin(),
                   GetParam().arguments.end());
  std::vector<std::int64_t> ids;
  const json document = dtrain.Run(arguments).Json();
  for (const json& row : document["experiments"]) {
    ids.push_back(row["id"]);
  }
  EXPECT_EQ(ids, GetParam().ids);
}

INSTANTIATE_TEST_SUITE_P(
    Options, ListSelectionTest,
    testing::Values(Selection{{"--state", "INTERRUPTED"}, {2}},
                    Selection{{"--label", "night", "-n", "2"}, {2, 3}},
                    Selection{{"--limit", "1"}, {3}},
                    Selection{{"--limit", "0"}, {1, 2, 3}},
                    Selection{{"--sort", "name", "-n", "1"}, {2}},
                    Selection{{"--label", "day"}, {}},
                    Selection{{"--label", "night", "--label", "day"}, {}},
                    Selection{{"--sort", "name"}, {2, 1, 3}},
                    Selection{{"--sort", "id", "--reverse"}, {3, 2, 1}},
                    Selection{{"--sort", "best"}, {1, 2, 3}},
                    Selection{{"--sort", "best", "--reverse"}, {1, 3, 2}},
                    Selection{{"--filter", "best<0.5"}, {1}},
                    Selection{{"--filter", "state!=COMPLETED and id>2"}, {3}}));

struct TrialSelection {
  std::vector<std::string> arguments;
  std::vector<std::string> ids;
};

class TrialSelectionTest : public testing::TestWithParam<TrialSelection> {};

TEST_P(TrialSelectionTest, ShowsSelectedTrialsInOrder) {
  const CliRunner dtrain;
  FillSampleStore(dtrain.store());
  AddAccuracySearch(dtrain.store());
  std::vector<std::string> arguments = GetParam().arguments;
  arguments.emplace_back("--json");
  const json document = dtrain.Run(arguments).Json();
  std::vector<std::string> ids;
  for (const json& row : document[GetParam().arguments[0]]) {
    ids.push_back(row["trial"]);
  }
  EXPECT_EQ(ids, GetParam().ids);
}

INSTANTIATE_TEST_SUITE_P(
    Options, TrialSelectionTest,
    testing::Values(
        TrialSelection{{"trials", "1", "--filter", "loss < 0.5"}, {"1.2"}},
        TrialSelection{{"trials", "1", "--filter", "hp.lr > 0.3"}, {"1.1"}},
        TrialSelection{{"trials", "1", "--filter", "lr > 0.3"}, {"1.1"}},
        TrialSelection{{"trials", "1", "--filter", "not state == error"},
                       {"1.2"}},
        TrialSelection{{"trials", "1", "--filter", "last(loss) is null"},
                       {"1.2"}},
        TrialSelection{{"trials", "4", "--filter", "min(speed) >= 2050"},
                       {"4.2", "4.3"}},
        TrialSelection{{"trials", "4", "--filter", "at(accuracy, 100) < 0.7"},
                       {"4.1", "4.3"}},
        TrialSelection{{"trials", "4", "--sort", "-last(accuracy),id"},
                       {"4.2", "4.3", "4.1"}},
        TrialSelection{{"trials", "4", "--sort", "hp.lr,-number"},
                       {"4.3", "4.2", "4.1"}},
        TrialSelection{{"trials", "4", "--sort", "-number", "--limit", "2"},
                       {"4.3", "4.2"}},
        TrialSelection{{"best", "4", "-n", "9", "--filter", "speed > 2100"},
                       {"4.3"}},
        TrialSelection{{"best", "1", "--filter", "state == ERROR"}, {"1.1"}},
        // --sort orders the best trials and does not choose them.
        TrialSelection{{"best", "4", "-n", "2"}, {"4.2", "4.3"}},
        TrialSelection{{"best", "4", "--limit", "2", "--sort", "-number"},
                       {"4.3", "4.2"}},
        TrialSelection{{"best", "4", "-n", "0", "--reverse"},
                       {"4.1", "4.3", "4.2"}},
        TrialSelection{{"best", "4", "-n", "0", "--sort", "speed", "--reverse"},
                       {"4.3", "4.2", "4.1"}}));

TEST_F(TableCommandsTest, ShowsTheColumnsAskedFor) {
  EXPECT_EQ(dtrain_
                .Run({"trials", "1", "--columns",
                      "id,hp.*,hp.batch,accuracy,max(loss),spark(loss),reason"})
                .out,
            "id   hp.lr  hp.batch  accuracy  max(loss)  spark(loss)  reason\n"
            "1.1    0.5        32      0.25       0.75  -            exit "
            "code 1\n"
            "1.2   0.25        32      0.75       0.25  -            -\n");
  EXPECT_EQ(dtrain_
                .Run({"trials", "1", "--csv", "--limit", "1", "--columns",
                      "number,started,metric.loss"})
                .out,
            "number,started,metric.loss\r\n"
            "1,1970-01-01T00:00:02.000000Z,0.75\r\n");
  const json row =
      dtrain_.Run({"best", "1", "--json", "--columns", "id,latest,pid"})
          .Json()["best"][0];
  EXPECT_EQ(row["value"], 0.25);
  EXPECT_EQ(row["columns"],
            json({{"id", "1.2"}, {"latest", 0.25}, {"pid", nullptr}}));
}

TEST_F(TableCommandsTest, ListsFieldsOfTheBestTrialsOnDemand) {
  dtrain_.Run({"note", "1", "a remark"});
  const CliResult result = dtrain_.Run(
      {"list", "--csv", "--columns", "id,label,note,best_trial,hp.lr,loss"});
  EXPECT_EQ(result.out,
            "id,label,note,best_trial,hp.lr,loss\r\n"
            "1,night,a remark,1.2,0.25,0.25\r\n"
            "2,night,,,,\r\n"
            "3,night,,,,\r\n");
  EXPECT_EQ(dtrain_
                .Run({"list", "--csv", "--columns", "id", "--filter",
                      "hp.lr < 1 or size > 1GB"})
                .out,
            "id\r\n1\r\n");
}

TEST_F(TableCommandsTest, KeepsTheMeaningOfOldFilters) {
  const auto ids = [this](const std::string& filter) {
    return dtrain_.Run({"list", "--csv", "--columns", "id", "--filter", filter})
        .out;
  };
  EXPECT_EQ(ids("best!=1"), "id\r\n1\r\n2\r\n3\r\n");
  EXPECT_EQ(ids("name==a,b"), "id\r\n");
  EXPECT_EQ(ids("name!=a,(b) AND 'id'<=1"), "id\r\n1\r\n");
}

TEST_F(TableCommandsTest, ShowsWhereAFilterIsWrong) {
  const CliResult filter =
      dtrain_.Run({"trials", "1", "--filter", "loss < 1 && acc > 0"});
  EXPECT_EQ(filter.code, 2);
  EXPECT_EQ(filter.err,
            "dtrain: error: --filter: 'loss < 1 && acc > 0': expected 'and' or "
            "'or' at character 10; write 'and'\n");
  const CliResult unknown =
      dtrain_.Run({"best", "1", "--filter", "acuracy > 0"});
  EXPECT_EQ(unknown.code, 3);
  EXPECT_THAT(unknown.err,
              HasSubstr("at character 1: experiment 1 has no column, "
                        "hyperparameter or metric 'acuracy'; did you mean "
                        "'accuracy'? columns: id, "));
  EXPECT_THAT(unknown.err,
              HasSubstr("; hyperparameters: hp.batch, hp.lr; metrics: "
                        "accuracy, loss\n"));
  EXPECT_EQ(
      dtrain_.Run({"trials", "1", "--filter", std::string(10000, '(')}).code,
      2);
}

TEST_F(TableCommandsTest, NamesBothMeaningsOfAName) {
  Store::OpenForWriting(StoreLayout(dtrain_.store()))
      .Write([](StoreWriter& writer) {
        writer.AddMetrics({1, 1}, MetricKind::kValidation, 100, 1,
                          {{"lr", 7}, {"rung", 8}}, Timestamp(1));
      });
  const CliResult result = dtrain_.Run({"trials", "1", "--filter", "lr == 7"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("'lr' may be a hyperparameter or a metric; "
                                    "write hp.lr or metric.lr"));
  EXPECT_THAT(dtrain_.Run({"trials", "1", "--filter", "metric.lr == 7"}).out,
              HasSubstr("1.1"));
  EXPECT_EQ(dtrain_.Run({"trials", "1", "--filter", "rung == 2"}).err,
            "dtrain: note: 'rung' is the column; the metric is metric.rung\n");
}

TEST_F(TableCommandsTest, ShowsLocalTimesOnATerminalOnly) {
  const CliResult result = dtrain_.RunProgram(
      {"script", "-qec", "stty cols 160; TZ=UTC-3 dtrain list", "/dev/null"});
  EXPECT_THAT(result.out, HasSubstr("  1970-01-01 03:00  "));
  EXPECT_THAT(dtrain_.Run({"list"}).out, HasSubstr("1970-01-01T00:00:02Z"));
}

TEST_F(TableCommandsTest, ListsTheNewestFirstOnATerminal) {
  Store::OpenForWriting(StoreLayout(dtrain_.store()))
      .Write([](StoreWriter& writer) {
        for (int i = 0; i < 20; ++i) {
          writer.AddExperiment({.name = "later",
                                .searcher = "single",
                                .metric = "loss",
                                .config = json::object()});
        }
      });
  const auto on_terminal = [this](const std::string& command) {
    return dtrain_.RunProgram({"script", "-qec", command, "/dev/null"}).out;
  };
  const std::string listed = on_terminal("dtrain list");
  EXPECT_LT(listed.find("23  later"), listed.find("22  later"));
  EXPECT_THAT(listed, HasSubstr(" 4  later"));
  EXPECT_THAT(listed, Not(HasSubstr("alpha")));
  EXPECT_THAT(listed, HasSubstr("3 older ones are not shown; 'dtrain list -n "
                                "0' shows all"));
  EXPECT_THAT(on_terminal("dtrain list -n 0"), HasSubstr("alpha"));
  EXPECT_THAT(dtrain_.Run({"list"}).out, HasSubstr("alpha"));
}

TEST_F(TableCommandsTest, CutsNoNumberOnANarrowTerminal) {
  for (const char* width : {"160", "80", "60", "40"}) {
    const std::string command =
        std::string("stty cols ") + width + "; dtrain list";
    EXPECT_THAT(
        dtrain_.RunProgram({"script", "-qec", command, "/dev/null"}).out,
        HasSubstr(" 0.25"))
        << width;
  }
}

TEST_F(TableCommandsTest, RefusesAnUnknownState) {
  EXPECT_EQ(dtrain_.Run({"list", "--state", "SLEEPING"}).code, 2);
  EXPECT_EQ(dtrain_.Run({"list", "--filter", "age<3"}).code, 2);
}

TEST_F(TableCommandsTest, ShowsTrials) {
  const auto rows = dtrain_.Run({"trials", "1", "--json"}).Json()["trials"];
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0]["trial"], "1.1");
  EXPECT_EQ(rows[0]["state"], "ERROR");
  EXPECT_EQ(rows[0]["reason"], "exit code 1");
  EXPECT_EQ(rows[1]["hparams"], json({{"lr", 0.25}, {"batch", 32}}));
  EXPECT_EQ(rows[1]["best"]["value"], 0.25);
}

TEST_F(TableCommandsTest, ShowsOnlySearchedHyperparametersInText) {
  const CliResult result = dtrain_.Run({"trials", "1"});
  EXPECT_THAT(result.out, HasSubstr("  lr  "));
  EXPECT_THAT(result.out, HasSubstr("  0.25  "));
  EXPECT_THAT(result.out, Not(HasSubstr("batch ")));
  EXPECT_THAT(result.out, Not(HasSubstr("32")));
}

TEST_F(TableCommandsTest, SortsTrialsBestFirst) {
  const auto by_loss = dtrain_.Run({"trials", "1", "--sort", "loss", "--json"});
  EXPECT_EQ(by_loss.Json()["trials"][0]["trial"], "1.2");
  const auto by_accuracy = dtrain_.Run(
      {"trials", "1", "--sort", "accuracy", "--limit", "1", "--json"});
  EXPECT_EQ(by_accuracy.Json()["trials"][0]["trial"], "1.1");
  EXPECT_EQ(by_accuracy.Json()["trials"].size(), 1);
}

TEST_F(TableCommandsTest, SortsTrialsByBestAndByRung) {
  const auto by_best = dtrain_.Run({"trials", "1", "--sort", "best", "--json"});
  EXPECT_EQ(by_best.Json()["trials"][0]["trial"], "1.2");
  const auto by_rung = dtrain_.Run({"trials", "1", "--sort", "rung", "--json"});
  EXPECT_EQ(by_rung.Json()["trials"][0]["trial"], "1.1");
  EXPECT_EQ(by_rung.Json()["trials"][0]["rung"], 2);
}

TEST_F(TableCommandsTest, ShowsWhyTrialsEndedAndTheirRungs) {
  const CliResult text = dtrain_.Run({"trials", "1"});
  EXPECT_THAT(text.out,
              StartsWith(" ID  STATE        lr  BEST  RUNG  BATCHES  REASON"));
  EXPECT_THAT(text.out, HasSubstr(" 0.5  0.75     2        0  exit code 1"));
  const CliResult csv = dtrain_.Run({"trials", "1", "--csv", "--limit", "1"});
  EXPECT_THAT(csv.out, StartsWith("id,state,hparams,best,rung,batches,reason,"
                                  "duration,latest,restarts,pid,slots,hp.batch,"
                                  "hp.lr,length,unit\r\n"
                                  "1.1,ERROR,\"{\"\"batch\"\":32"));
  EXPECT_THAT(csv.out, EndsWith(",32,0.5,0,batches\r\n"));
}

std::vector<std::string> Ids(const json& rows) {
  std::vector<std::string> ids;
  for (const json& row : rows) ids.push_back(row["trial"]);
  return ids;
}

TEST_F(TableCommandsTest, SortsTheLargestFirstIfLargerIsBetter) {
  AddAccuracySearch(dtrain_.store());
  const auto trials = [this](const std::string& key) {
    return Ids(
        dtrain_.Run({"trials", "4", "--sort", key, "--json"}).Json()["trials"]);
  };

  EXPECT_THAT(trials("best"), ElementsAre("4.2", "4.3", "4.1"));
  EXPECT_THAT(trials("accuracy"), ElementsAre("4.2", "4.3", "4.1"));
  EXPECT_THAT(trials("rung"), ElementsAre("4.2", "4.3", "4.1"));
}

TEST_F(TableCommandsTest, SortsByOtherMetricsWithTheSmallestFirst) {
  AddAccuracySearch(dtrain_.store());
  EXPECT_THAT(Ids(dtrain_.Run({"trials", "4", "--sort", "speed", "--json"})
                      .Json()["trials"]),
              ElementsAre("4.1", "4.2", "4.3"));
}

// Whether a large or a small speed is good is unknown: the order is said, and
// can be turned.
TEST_F(TableCommandsTest, SaysTheOrderOfOtherMetricsAndReversesIt) {
  AddAccuracySearch(dtrain_.store());
  const CliResult smallest =
      dtrain_.Run({"trials", "4", "--sort", "speed", "--json"});
  EXPECT_EQ(
      smallest.err,
      "dtrain: note: sorted by speed, the smallest value first; --reverse "
      "shows the largest first\n");
  for (const std::vector<std::string>& order :
       {std::vector<std::string>{"--sort", "-speed"},
        {"--sort", "speed", "--reverse"}}) {
    std::vector<std::string> arguments = {"trials", "4", "--json"};
    arguments.insert(arguments.end(), order.begin(), order.end());
    const CliResult largest = dtrain_.Run(arguments);
    EXPECT_THAT(Ids(largest.Json()["trials"]),
                ElementsAre("4.3", "4.2", "4.1"));
    EXPECT_EQ(largest.err, "");
  }
}

TEST_F(TableCommandsTest, ReversesTheOrderOfTrials) {
  AddAccuracySearch(dtrain_.store());
  EXPECT_THAT(
      Ids(dtrain_.Run({"trials", "4", "--reverse", "--json"}).Json()["trials"]),
      ElementsAre("4.3", "4.2", "4.1"));
  EXPECT_THAT(
      Ids(dtrain_.Run({"trials", "4", "--sort", "best", "--reverse", "--json"})
              .Json()["trials"]),
      ElementsAre("4.1", "4.3", "4.2"));
}

TEST_F(TableCommandsTest, HasAColumnOfEachHyperparameterInCsv) {
  const CliResult best = dtrain_.Run({"best", "1", "--csv"});
  EXPECT_THAT(best.out, HasSubstr(",metric,hp.batch,hp.lr,length,unit\r\n"));
  EXPECT_THAT(best.out, EndsWith(",loss,32,0.25,100,batches\r\n"));
}

TEST_F(TableCommandsTest, ShowsTheLargestAsTheBest) {
  AddAccuracySearch(dtrain_.store());

  const json best = dtrain_.Run({"best", "4", "-n", "2", "--json"}).Json();

  EXPECT_THAT(Ids(best["best"]), ElementsAre("4.2", "4.3"));
  EXPECT_EQ(best["best"][0]["value"], 0.9);
  EXPECT_EQ(best["best"][0]["batches"], 50);
  EXPECT_EQ(best["best"][1]["value"], 0.6);
  EXPECT_EQ(dtrain_.Run({"list", "--json"}).Json()["experiments"][3]["best"],
            json({{"metric", "accuracy"},
                  {"value", 0.9},
                  {"batches", 50},
                  {"length", 50},
                  {"unit", "batches"},
                  {"checkpoint", nullptr},
                  {"trial", "4.2"}}));
  EXPECT_THAT(dtrain_.Run({"describe", "4"}).out,
              HasSubstr("random, maximizing accuracy\n"));
  EXPECT_THAT(dtrain_.Run({"describe", "1"}).out,
              HasSubstr("random, minimizing loss\n"));
}

TEST_F(TableCommandsTest, NamesTheLargestSavedValue) {
  AddAccuracySearch(dtrain_.store());
  const StoreLayout layout(dtrain_.store());
  // Not the checkpoint of its best validation, 0.9 at 50 batches.
  const std::string saved = AddCheckpoint(layout, {4, 2}, 100, 'c');
  const std::string better = AddCheckpoint(layout, {4, 1}, 50, 'd');
  AddCheckpoint(layout, {4, 1}, 100, 'e');

  const json best = dtrain_.Run({"best", "4", "-n", "9", "--json"}).Json();

  EXPECT_EQ(best["best"][0]["checkpoint"], nullptr);
  EXPECT_EQ(best["best"][0]["best_saved"]["checkpoint"], saved);
  EXPECT_EQ(best["best"][2]["trial"], "4.1");
  EXPECT_EQ(best["best"][2]["best_saved"]["checkpoint"], better);
}

TEST_F(TableCommandsTest, PutsTrialsWithoutAValueLast) {
  AddAccuracySearch(dtrain_.store());
  Store::OpenForWriting(StoreLayout(dtrain_.store()))
      .Write([](StoreWriter& writer) {
        writer.AddTrial({.id = {4, 4},
                         .request_id = "r",
                         .hparams = nlohmann::json::object()});
      });

  EXPECT_THAT(Ids(dtrain_.Run({"trials", "4", "--sort", "best", "--json"})
                      .Json()["trials"]),
              ElementsAre("4.2", "4.3", "4.1", "4.4"));
}

TEST_F(TableCommandsTest, ShowsTheCheckpointsOfOneTrial) {
  const StoreLayout layout(dtrain_.store());
  AddCheckpoint(layout, {1, 1}, 100, 'c');
  const auto of = [this](const std::string& target) {
    return Ids(
        dtrain_.Run({"checkpoints", target, "--json"}).Json()["checkpoints"]);
  };

  EXPECT_THAT(of("1"), ElementsAre("1.1", "1.2"));
  EXPECT_THAT(of("1.1"), ElementsAre("1.1"));
  EXPECT_THAT(of("1.2"), ElementsAre("1.2"));
}

TEST_F(TableCommandsTest, ListsTheAvailableMetrics) {
  const CliResult result = dtrain_.Run({"trials", "1", "--sort", "los"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("accuracy"));
}

TEST_F(TableCommandsTest, ShowsTheBestTrials) {
  const auto document = dtrain_.Run({"best", "1", "-n", "5", "--json"}).Json();
  ASSERT_EQ(document["best"].size(), 2);
  EXPECT_EQ(document["metric"], "loss");
  EXPECT_EQ(document["best"][0]["trial"], "1.2");
  EXPECT_EQ(document["best"][1]["value"], 0.75);
  EXPECT_EQ(document["best"][1]["rung"], 2);
  EXPECT_EQ(document["best"][1]["state"], "ERROR");
  EXPECT_EQ(document["best"][1]["reason"], "exit code 1");
  EXPECT_THAT(dtrain_.Run({"best", "1"}).out,
              StartsWith("TRIAL  VALUE    lr  RUNG  STATE"));
}

TEST_F(TableCommandsTest, ShowsCheckpoints) {
  const auto rows =
      dtrain_.Run({"checkpoints", "1", "--json"}).Json()["checkpoints"];
  ASSERT_EQ(rows.size(), 1);
  EXPECT_EQ(rows[0]["trial"], "1.2");
  EXPECT_EQ(rows[0]["bytes"], 12'345'678);
  EXPECT_THAT(dtrain_.Run({"checkpoints", "1.2"}).out, HasSubstr("12.3 MB"));
  EXPECT_THAT(dtrain_.Run({"checkpoints", "1.1"}).out,
              Not(HasSubstr("12.3 MB")));
}

TEST_F(TableCommandsTest, KeepsTheMetricOfCheckpointsOnNarrowTerminals) {
  const auto shown = [this](const std::string& size) {
    return dtrain_
        .RunProgram({"python3", DTRAIN_SOURCE_DIR "/tests/support/terminal.py",
                     size, "dtrain checkpoints 1"})
        .out;
  };
  EXPECT_THAT(shown("80x24"),
              AllOf(HasSubstr("METRIC"), HasSubstr("omitted: EPOCH, TIME")));
  EXPECT_THAT(shown("60x24"),
              AllOf(HasSubstr("METRIC"), HasSubstr("0a1b2c3d-0000-4"),
                    HasSubstr("omitted: EPOCH, TIME")));
}

TEST_F(TableCommandsTest, FitsMetricsToTheTerminal) {
  const auto shown = [this](const std::string& size) {
    return dtrain_
        .RunProgram({"python3", DTRAIN_SOURCE_DIR "/tests/support/terminal.py",
                     size, "dtrain metrics 1 --superseded"})
        .out;
  };
  EXPECT_THAT(shown("120x24"),
              AllOf(HasSubstr("TIME"), Not(HasSubstr("omitted"))));
  EXPECT_THAT(shown("80x24"), AllOf(HasSubstr("EPOCH"), HasSubstr("VALUE"),
                                    HasSubstr("(omitted: TIME;")));
  EXPECT_THAT(shown("66x24"),
              AllOf(HasSubstr("VALUE"), HasSubstr("(omitted: EPOCH, TIME;")));
}

TEST_F(TableCommandsTest, ShowsModelsAndSlots) {
  const auto models = dtrain_.Run({"models", "--json"}).Json()["models"];
  EXPECT_EQ(models[0]["entrypoint"], "builtin:FaultTrial");
  EXPECT_THAT(dtrain_.Run({"models", "--csv"}).out,
              StartsWith("entrypoint,hyperparameter,type,default,doc\r\n"));
  const auto slots = dtrain_.Run({"slots", "--json"}).Json();
  EXPECT_GE(slots["cpus"], 1);
  EXPECT_TRUE(slots["slots"][0]["free"].is_boolean());
  EXPECT_THAT(dtrain_.Run({"slots"}).out, StartsWith("SLOT "));
}

}  // namespace
}  // namespace dtrain

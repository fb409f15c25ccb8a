// importance, and best --pareto, on a recorded search.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/read_config.h"
#include "engine/store/store.h"
#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr std::int64_t kTrials = 40;
constexpr std::int64_t kPromoted = 10;

json SearchConfig(const std::string& unit) {
  return ReadConfig(
             "name: search\n"
             "entrypoint: builtin:FaultTrial\n"
             "hyperparameters:\n"
             "  global_batch_size: 10\n"
             "  x: {type: double, minval: 0, maxval: 1}\n"
             "  y: {type: double, minval: 0, maxval: 1}\n"
             "records_per_epoch: 100\n"
             "searcher: {name: asha, metric: loss, max_trials: 40, num_rungs: "
             "2, max_length: {" +
                 unit + ": 400}}\n",
             {.file_name = "search.yaml"})
      .config.value()
      .effective;
}

// A search of 40 trials that stopped all but 10 after 100 batches. The loss is
// x² + 0.001·y after 100 batches and y after 400; `speed` is x at both.
class ImportanceTest : public testing::Test {
 protected:
  void AddSearch(const std::string& unit = "batches",
                 std::int64_t trials = kTrials,
                 const json& more_of_y = json::object()) {
    json config = SearchConfig(unit);
    config["hyperparameters"]["y"].update(more_of_y);
    Store store = Store::OpenForWriting(StoreLayout(dtrain_.store()));
    store.Write([&](StoreWriter& w) {
      const std::int64_t id = w.AddExperiment({.name = "search",
                                               .searcher = "async_halving",
                                               .metric = "loss",
                                               .config = config,
                                               .created = Timestamp(1)});
      for (std::int64_t i = 0; i < trials; ++i) AddTrial(w, {id, i + 1}, i);
      w.SetExperimentState(id, State::kCompleted, Timestamp(9'000'000));
    });
  }

  json Importance(std::vector<std::string> options = {}) const {
    std::vector<std::string> arguments = {"importance", "1", "--json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.Json();
  }

  const CliRunner dtrain_;

 private:
  static void AddTrial(StoreWriter& w, TrialId id, std::int64_t i) {
    // Two sequences that are spread evenly and have nothing to do with each
    // other.
    const double x = static_cast<double>(i * 7 % 40) / 40;
    const double y = static_cast<double>(i * 17 % 40) / 40;
    w.AddTrial({.id = id,
                .request_id = "r",
                .hparams = {{"global_batch_size", 10}, {"x", x}, {"y", y}},
                .created = Timestamp(1)});
    Validate(w, id, 100, x * x + 0.001 * y, x);
    if (i < kPromoted) Validate(w, id, 400, y, x);
    w.SetTrialState(id, i < kPromoted ? State::kCompleted : State::kStopped,
                    Timestamp(8'000'000));
  }

  static void Validate(StoreWriter& w, TrialId id, std::int64_t batches,
                       double loss, double speed) {
    w.AddMetrics(id, MetricKind::kValidation, batches,
                 static_cast<double>(batches) / 10,
                 {{"loss", loss}, {"speed", speed}}, Timestamp(batches));
    w.AddValidation(id, loss, batches, /*smaller_is_better=*/true);
  }
};

TEST_F(ImportanceTest, CountsTrialsThatTheSearchStopped) {
  AddSearch();
  const CliResult result = dtrain_.Run({"importance", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err,
            "dtrain: importance for being among the best 4 of 40 trials in "
            "loss (smallest) at 100 batches\n"
            "dtrain: note: 4 trials are few to compare with; use a larger "
            "--quantile or more trials\n");
  EXPECT_THAT(result.out,
              testing::MatchesRegex(
                  "HPARAM  IMPORTANCE  LOW  HIGH  CORRELATION\n"
                  "x            99.8%  [5-9].%  100%         1.00\n"
                  "y             0.2%   0%   [0-9]+%        -0.01\n"));
}

// Half of the trials meet the condition; the others have the value of `else`.
TEST_F(ImportanceTest, JudgesAConditionalOneByTheTrialsThatHaveIt) {
  AddSearch("batches", kTrials,
            {{"when", {{"x", {{"minval", 0.5}}}}}, {"else", 0}});
  const json found = Importance();
  EXPECT_EQ(found["importance"][0]["hparam"], "x");
  EXPECT_EQ(found["importance"][0]["trials"], kTrials);
  EXPECT_EQ(found["importance"][1]["trials"], kTrials / 2);
  EXPECT_THAT(dtrain_.Run({"importance", "1"}).err,
              HasSubstr("note: not in all trials, and judged by those that "
                        "have them: y (in 20)\n"));
}

TEST_F(ImportanceTest, ComparesAtTheLengthThatIsAskedFor) {
  AddSearch();
  const json found = Importance({"--at", "400", "--quantile", "0.2"});
  EXPECT_EQ(found["at"], (json{{"batches", 400}}));
  EXPECT_EQ(found["trials"], kPromoted);
  EXPECT_EQ(found["importance"][0]["hparam"], "y");
  EXPECT_EQ(found["importance"][0]["correlation"], 1);
}

TEST_F(ImportanceTest, ComparesTheBestOrLastValidations) {
  AddSearch();
  EXPECT_EQ(Importance({"--at", "best"})["at"], "best");
  EXPECT_EQ(Importance({"--at", "best"})["trials"], kTrials);
  const json last = Importance({"--at", "last"});
  EXPECT_EQ(last["at"], "last");
  EXPECT_NE(last["importance"], Importance({"--at", "best"})["importance"]);
}

TEST_F(ImportanceTest, ReadsLengthsInTheUnitOfTheSearch) {
  AddSearch("epochs");
  EXPECT_EQ(Importance()["at"], (json{{"epochs", 10}}));
  EXPECT_EQ(Importance({"--at", "40"})["trials"], kPromoted);
}

TEST_F(ImportanceTest, TakesAnotherMetricWithItsDirection) {
  AddSearch();
  const json found = Importance({"--metric", "speed:max"});
  EXPECT_EQ(found["metric"], "speed");
  EXPECT_EQ(found["smaller_is_better"], false);
  EXPECT_EQ(found["importance"][0]["hparam"], "x");
}

TEST_F(ImportanceTest, TakesTheBestShareAsAsked) {
  AddSearch();
  const CliResult result =
      dtrain_.Run({"importance", "1", "--quantile", "0.5"});
  EXPECT_EQ(result.err,
            "dtrain: importance for being among the best 20 of 40 trials in "
            "loss (smallest) at 100 batches\n");
}

// Experiment 1, of 20 trials: `ties` of them have the loss 1, the others more.
class TiedImportanceTest : public ImportanceTest {
 protected:
  CliResult ImportanceOfTies(std::int64_t ties) const {
    Store store = Store::OpenForWriting(StoreLayout(dtrain_.store()));
    store.Write([&](StoreWriter& w) {
      const std::int64_t id =
          w.AddExperiment({.name = "ties",
                           .searcher = "random",
                           .metric = "loss",
                           .config = SearchConfig("batches"),
                           .created = Timestamp(1)});
      for (std::int64_t i = 1; i <= 20; ++i) {
        const double place = static_cast<double>(i) / 20;
        w.AddTrial({.id = {id, i},
                    .request_id = "r",
                    .hparams = {{"x", place}, {"y", 0.5}},
                    .created = Timestamp(1)});
        const double loss = i <= ties ? 1 : 1 + place;
        w.AddMetrics({id, i}, MetricKind::kValidation, 100, 10,
                     {{"loss", loss}}, Timestamp(i));
        w.AddValidation({id, i}, loss, 100, /*smaller_is_better=*/true);
      }
    });
    return dtrain_.Run({"importance", "1", "--json"});
  }
};

TEST_F(TiedImportanceTest, CountsTrialsThatEqualTheLastOfTheBest) {
  const CliResult result = ImportanceOfTies(8);
  EXPECT_EQ(result.Json()["best_trials"], 8);
  EXPECT_EQ(result.err,
            "dtrain: importance for being among the best 8 of 20 trials in "
            "loss (smallest) at 100 batches\n"
            "dtrain: note: --quantile 0.1 is 2 trials; 6 more have the same "
            "value as the last of them\n");
}

TEST_F(TiedImportanceTest, ExplainsThatEqualTrialsHaveNoImportance) {
  const CliResult result = ImportanceOfTies(20);
  EXPECT_EQ(result.Json()["importance"][0]["importance"], 0);
  EXPECT_THAT(result.err, HasSubstr("among the best 20 of 20 trials"));
  EXPECT_THAT(result.err,
              HasSubstr("note: every importance is 0: all 20 trials count as "
                        "the best"));
}

TEST_F(ImportanceTest, GivesNoNumbersBelowTenTrials) {
  AddSearch("batches", 9);
  const CliResult result = dtrain_.Run({"importance", "1"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err,
            "dtrain: no importance of experiment 1: 9 trials have a finite "
            "value of loss at 400 batches, and importance needs 10\n");
  EXPECT_EQ(Importance()["importance"], json::array());
}

TEST_F(ImportanceTest, RefusesWhatIsNoQuantile) {
  for (const char* quantile : {"0", "1", "-1", "nan", "0.5x", ""}) {
    EXPECT_EQ(dtrain_.Run({"importance", "1", "--quantile", quantile}).code, 2)
        << quantile;
  }
}

class ParetoTest : public testing::Test {
 protected:
  // Trials 1 to 4 with an accuracy and a latency; trial 5 has no latency.
  ParetoTest() {
    Store store = Store::OpenForWriting(StoreLayout(dtrain_.store()));
    store.Write([&](StoreWriter& w) {
      w.AddExperiment({.name = "search",
                       .searcher = "random",
                       .metric = "accuracy",
                       .smaller_is_better = false,
                       .config = SearchConfig("batches"),
                       .created = Timestamp(1)});
      AddTrial(w, 1, {{"accuracy", 0.8}, {"latency", 5}});
      AddTrial(w, 2, {{"accuracy", 0.9}, {"latency", 9}});
      AddTrial(w, 3, {{"accuracy", 0.85}, {"latency", 9}});
      AddTrial(w, 4, {{"accuracy", 0.7}, {"latency", 6}});
      AddTrial(w, 5, {{"accuracy", 0.95}});
    });
  }

  CliResult Pareto(const std::string& goals,
                   const std::string& format = "--json") const {
    return dtrain_.Run({"best", "1", "--pareto", goals, format});
  }

  const CliRunner dtrain_;

 private:
  static void AddTrial(StoreWriter& w, std::int64_t number,
                       const MetricValues& values) {
    const TrialId id{1, number};
    w.AddTrial({.id = id,
                .request_id = "r",
                .hparams = {{"x", 0.5}},
                .created = Timestamp(1)});
    w.AddMetrics(id, MetricKind::kValidation, 100, 1, values, Timestamp(2));
    w.AddValidation(id, values[0].second, 100, /*smaller_is_better=*/false);
    w.SetTrialState(id, State::kCompleted, Timestamp(3));
  }
};

TEST_F(ParetoTest, ShowsTrialsThatNoOtherDominates) {
  const CliResult result = Pareto("accuracy:max,latency:min");
  ASSERT_EQ(result.code, 0) << result.err;
  const json front = result.Json()["pareto"];
  ASSERT_EQ(front.size(), 2u);
  EXPECT_EQ(front[0]["trial"], "1.2");
  EXPECT_EQ(front[0]["metrics"], (json{{"accuracy", 0.9}, {"latency", 9.0}}));
  EXPECT_EQ(front[1]["trial"], "1.1");
  EXPECT_EQ(result.err,
            "dtrain: note: 1 trial lacks one of these metrics at the best "
            "validation by accuracy\n");
}

TEST_F(ParetoTest, KnowsTheDirectionOfTheSearchersMetric) {
  EXPECT_EQ(Pareto("latency:min,accuracy").Json()["metrics"][1],
            (json{{"metric", "accuracy"}, {"smaller_is_better", false}}));
}

TEST_F(ParetoTest, NamesTheMetricsInCsv) {
  EXPECT_THAT(
      Pareto("accuracy,latency:min", "--csv").out,
      testing::StartsWith("trial,accuracy,latency,hparams,state,checkpoint,"
                          "length,unit\r\n1.2,0.9,9,"));
}

TEST_F(ParetoTest, RefusesBadGoals) {
  EXPECT_THAT(Pareto("accuracy,latency").err,
              HasSubstr("write latency:min or latency:max"));
  EXPECT_THAT(Pareto("accuracy").err, HasSubstr("expected 2 to 4 metrics"));
  EXPECT_THAT(Pareto("accuracy,accuracy:min").err,
              HasSubstr("metric 'accuracy' comes twice"));
  EXPECT_EQ(Pareto("accuracy,f1:max").code, 3);
  EXPECT_THAT(Pareto("accuracy,f1:max").err,
              HasSubstr("no validation metric 'f1'; it has accuracy, latency"));
}

}  // namespace
}  // namespace dtrain

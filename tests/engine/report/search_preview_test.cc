#include "engine/report/search_preview.h"

#include <sstream>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using nlohmann::json;

double Metric(TrialIndex trial, std::int64_t length) {
  return static_cast<double>(trial * 100 + length);
}

class SearchPreviewTest : public testing::Test {
 protected:
  SearcherConfig config_{.name = "async_halving",
                         .metric = "loss",
                         .max_length = 900,
                         .max_trials = 10,
                         .num_rungs = 2,
                         .divisor = 3};
  SearchPlan plan_{
      .rows = {{.trials = 7, .length = 300}, {.trials = 3, .length = 900}},
      .brackets = {{.max_trials = 10,
                    .max_concurrent_trials = 4,
                    .rungs = {300, 900}}},
      .total_length = 4800,
      .max_trials = 10};
  Simulation simulation_{
      .trials = {{.created = {.trial = 0,
                              .request_id = "id",
                              .hparams = {{"lr", 0.125}, {"batch", 32}},
                              .seed = 5},
                  .lengths = {300, 900}},
                 {.created = {.trial = 1, .hparams = {{"lr", 0.25}}},
                  .exit = ExitReason::kInvalidHp},
                 {.created = {.trial = 2, .hparams = {{"lr", 0.5}}},
                  .lengths = {300},
                  .exit = ExitReason::kErrored}}};
};

TEST_F(SearchPreviewTest, GivesThePlanAsJson) {
  EXPECT_EQ(PlanJson(plan_), json({{"plan",
                                    {{{"trials", 7}, {"length", 300}},
                                     {{"trials", 3}, {"length", 900}}}},
                                   {"brackets",
                                    {{{"max_trials", 10},
                                      {"max_concurrent_trials", 4},
                                      {"rungs", {300, 900}}}}},
                                   {"total_length", 4800},
                                   {"max_seconds", nullptr}}));
}

TEST_F(SearchPreviewTest, ShowsThePlanWithItsUnit) {
  std::ostringstream out;
  PrintSearchPlan({.config = config_, .unit = Unit::kRecords, .plan = plan_},
                  {}, out);

  EXPECT_EQ(out.str(),
            "async_halving search of 10 trials minimizing loss, up to 900 "
            "records each\n\n"
            "TRIALS       LENGTH\n"
            "     7  300 records\n"
            "     3  900 records\n"
            "in total 4800 records\n\n"
            "BRACKET  TRIALS  AT ONCE  RUNGS\n"
            "      1      10        4  300, 900\n");
}

TEST_F(SearchPreviewTest, ShowsHowASimulationEndedAndItsBestTrials) {
  const json space = {{"lr", {{"type", "log"}}}, {"batch", 32}};
  std::ostringstream out;
  PrintSimulation({.config = config_,
                   .hyperparameters = space,
                   .simulation = simulation_,
                   .metric = Metric},
                  {}, out);

  EXPECT_EQ(out.str(),
            "3 trials, 1 closed, 1 errored, 1 invalid_hp\n\n"
            "TRIALS  FINAL LENGTH\n"
            "     1     0 batches\n"
            "     1   300 batches\n"
            "     1   900 batches\n\n"
            "TRIAL  BEST   AT  ENDED AT  END      HPARAMS\n"
            "    1   300  300       900  closed   lr=0.125\n"
            "    3   500  300       300  errored  lr=0.5\n");
}

TEST_F(SearchPreviewTest, TakesTheLargestMetricIfLargerIsBetter) {
  config_.smaller_is_better = false;
  std::ostringstream out;
  PrintSimulation({.config = config_,
                   .hyperparameters = json::object(),
                   .simulation = simulation_,
                   .metric = Metric},
                  {}, out);

  EXPECT_NE(out.str().find("    1   900  900       900  closed"),
            std::string::npos);
}

TEST_F(SearchPreviewTest, WritesALinePerTrialOfASimulation) {
  std::ostringstream out;
  WriteSimulationJson(simulation_, out);

  const json document = json::parse(out.str());
  EXPECT_EQ(document["n_trials"], 3);
  EXPECT_EQ(document["trials"][0],
            json({{"trial", 0},
                  {"request_id", "id"},
                  {"trial_seed", 5},
                  {"hparams", {{"lr", 0.125}, {"batch", 32}}},
                  {"ops", {300, 900}},
                  {"final_length", 900},
                  {"end", "closed"}}));
  EXPECT_EQ(document["trials"][1]["end"], "invalid_hp");
  EXPECT_EQ(document["trials"][1]["ops"], json::array());
  EXPECT_EQ(document["trials"][2]["end"], "errored");
}

TEST_F(SearchPreviewTest, WritesFinalLengthsInTheOrderOfNumbers) {
  simulation_.trials[0].lengths = {1000};
  simulation_.trials[2].lengths = {90};
  std::ostringstream out;
  WriteSimulationJson(simulation_, out);

  EXPECT_NE(out.str().find(R"({"0": 1, "90": 1, "1000": 1})"),
            std::string::npos);
}

}  // namespace
}  // namespace dtrain

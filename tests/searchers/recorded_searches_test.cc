// Whole searches as they were recorded: the same YAML and seed must give the
// same trials, number for number.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "searchers/registry.h"
#include "searchers/search_plan.h"
#include "searchers/simulation.h"
#include "tests/support/golden.h"

namespace dtrain {
namespace {

using nlohmann::json;

constexpr int kSearches = 36;

const json& RecordedSearches() {
  static const json searches = ReadGolden("searcher_0.37.0.json");
  return searches;
}

std::vector<SimulatedExit> RecordedExits(const json& given) {
  std::vector<SimulatedExit> exits;
  for (const json& exit : given.value("early_exits", json::array())) {
    exits.push_back({.trial = exit.at("trial"),
                     .after = exit.at("after_validations"),
                     .reason = exit.at("reason") == "INVALID_HP"
                                   ? ExitReason::kInvalidHp
                                   : ExitReason::kErrored});
  }
  return exits;
}

// An operation as the record writes it.
std::string ActionText(const Operation& operation) {
  if (const auto* create = std::get_if<Create>(&operation)) {
    return "create " + std::to_string(create->trial);
  }
  if (const auto* more = std::get_if<ValidateAfter>(&operation)) {
    return "validate_after " + std::to_string(more->trial) + " " +
           std::to_string(more->length);
  }
  if (const auto* close = std::get_if<Close>(&operation)) {
    return "close " + std::to_string(close->trial);
  }
  return "shutdown";
}

// Returns the recorded actions in order. In the recording an early exit is
// followed by a Close and a Closed, which it includes here.
std::vector<std::string> RecordedActions(const json& golden) {
  std::vector<std::string> actions;
  for (const json& event : golden.at("events")) {
    const std::string own = "close " + event.at("trial").dump();
    for (const json& action : event.at("actions")) {
      const bool implied = event.at("ev") == "exited_early" && action == own;
      if (!implied) actions.push_back(action);
    }
  }
  return actions;
}

class RecordedSearchTest : public testing::TestWithParam<int> {
 protected:
  RecordedSearchTest()
      : golden_(RecordedSearches().at(GetParam())),
        given_(golden_.at("case")),
        searcher_(MakeSearcher(RecordedConfig(given_.at("searcher")),
                               given_.at("hyperparameters"),
                               given_.at("experiment_seed"))) {
    options_.metric =
        FindSimulatedMetric(given_.at("metric_function").get<std::string>());
    if (given_.at("driver") == "sequential") {
      options_.order = SimulationOrder::kSequential;
    }
    options_.exits = RecordedExits(given_);
  }

  json golden_;
  json given_;
  std::unique_ptr<Searcher> searcher_;
  SimulationOptions options_;
};

TEST_P(RecordedSearchTest, ReproducesTheTrials) {
  SCOPED_TRACE(given_.at("name"));
  const Simulation played = Simulate(*searcher_, options_);

  ASSERT_EQ(played.trials.size(), golden_.at("trials").size());
  for (const json& expected : golden_.at("trials")) {
    const SimulatedTrial& trial = played.trials.at(expected.at("trial"));
    const json lengths = trial.lengths;
    EXPECT_EQ(trial.created.request_id, expected.at("request_id"));
    EXPECT_EQ(trial.created.seed, expected.at("trial_seed"));
    EXPECT_TRUE(Near(trial.created.hparams, expected.at("hparams")));
    EXPECT_EQ(lengths, expected.value("ops", json::array()))
        << "trial " << trial.created.trial;
    EXPECT_EQ(trial.exit.has_value(), expected.at("end") == "early_exit");
  }
}

TEST_P(RecordedSearchTest, ReproducesTheOrder) {
  SCOPED_TRACE(given_.at("name"));
  std::vector<std::string> actions;

  (void)Simulate(*searcher_, options_,
                 [&](const Event&, const std::vector<Operation>& operations) {
                   for (const Operation& operation : operations) {
                     actions.push_back(ActionText(operation));
                   }
                 });

  EXPECT_EQ(actions, RecordedActions(golden_));
}

INSTANTIATE_TEST_SUITE_P(All, RecordedSearchTest, testing::Range(0, kSearches));

TEST(RecordedSearchTest, HasEveryCase) {
  EXPECT_EQ(RecordedSearches().size(), kSearches);
}

json PlanJson(const SearchPlan& plan) {
  json rows = json::array();
  for (const PlanRow& row : plan.rows) rows.push_back({row.trials, row.length});
  return rows;
}

json BracketsJson(const SearchPlan& plan) {
  json brackets = json::array();
  for (const Bracket& bracket : plan.brackets) {
    brackets.push_back(
        {{"max_trials", bracket.max_trials},
         {"max_concurrent_trials", bracket.max_concurrent_trials},
         {"num_rungs", bracket.rungs.size()},
         {"rungs", bracket.rungs}});
  }
  return brackets;
}

TEST(RecordedBracketsTest, AreReproduced) {
  const json golden = ReadGolden("brackets_0.38.0.json");
  ASSERT_EQ(golden.size(), 378u);
  for (const json& expected : golden) {
    const SearcherConfig config = RecordedConfig(expected.at("searcher"));

    const SearchPlan plan = PlanSearch(config, json::object());

    EXPECT_EQ(BracketsJson(plan), expected.at("brackets"))
        << expected.at("searcher");
    EXPECT_EQ(PlanJson(plan), expected.at("preview_search_count_length"))
        << expected.at("searcher");
  }
}

}  // namespace
}  // namespace dtrain

#include "engine/analysis/importance.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using nlohmann::json;
using testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Importances that Optuna computed; see record_importances.py.
json RecordedCases() {
  std::ifstream file(DTRAIN_SOURCE_DIR
                     "/tests/engine/analysis/importance_cases.json");
  return json::parse(file);
}

std::vector<TrialOutcome> MakeOutcomes(const std::vector<SearchAxis>& axes,
                                       const json& trials) {
  std::vector<TrialOutcome> outcomes;
  for (const json& trial : trials) {
    const json& value = trial.at("value");
    TrialOutcome outcome{.value = value.is_null() ? kNan : value.get<double>()};
    for (const SearchAxis& axis : axes) {
      outcome.places.push_back(PlaceOn(axis, trial.at("hparams")));
    }
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

class RecordedImportanceTest : public testing::TestWithParam<int> {};

TEST_P(RecordedImportanceTest, EqualsOptunas) {
  const json recorded = RecordedCases().at(GetParam());
  SCOPED_TRACE(recorded.at("name").get<std::string>());
  const auto axes = SearchAxes(recorded.at("space"), /*grid=*/true);
  const auto importances = HparamImportances(
      axes, MakeOutcomes(axes, recorded.at("trials")),
      recorded.at("smaller_is_better"), recorded.at("quantile"));
  std::map<std::string, double> found;
  for (const auto& one : importances) found[one.name] = one.divergence;
  const json& expected = recorded.at("expected");
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected.items()) {
    EXPECT_NEAR(found.at(name), value.get<double>(), 1e-6) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Optuna, RecordedImportanceTest, testing::Range(0, 21));

TEST(ImportanceTest, EveryRecordedCaseIsRead) {
  EXPECT_EQ(RecordedCases().size(), 21u);
}

// The share of x² + 0.01·y: first in the recorded cases.
TEST(ImportanceTest, RanksTheHparamThatMattersFirst) {
  const json recorded = RecordedCases().at(0);
  const auto axes = SearchAxes(recorded.at("space"), false);
  const auto importances = HparamImportances(
      axes, MakeOutcomes(axes, recorded.at("trials")), true, 0.1);
  ASSERT_EQ(importances.size(), 2u);
  EXPECT_EQ(importances[0].name, "x");
  EXPECT_GT(importances[0].share, 0.7);
  EXPECT_DOUBLE_EQ(importances[0].share + importances[1].share, 1);
}

TEST(ImportanceTest, CountsTiesAmongTheBest) {
  const std::vector<TrialOutcome> trials = {
      {.value = 1}, {.value = 2}, {.value = 2}, {.value = kNan}, {.value = 3}};
  EXPECT_EQ(CountBest(trials, true, 0.25), 1u);
  EXPECT_EQ(CountBest(trials, true, 0.5), 3u);
  EXPECT_EQ(CountBest(trials, false, 0.5), 3u);
  EXPECT_EQ(CountBest({}, false, 0.5), 0u);
}

SearchAxis Numbers(std::string name) {
  return {.name = std::move(name), .low = 0, .high = 9};
}

TEST(ImportanceTest, GivesTheRankCorrelation) {
  const std::vector<SearchAxis> axes = {
      Numbers("up"),
      Numbers("down"),
      {.name = "batch", .high = 2, .choices = {64, 16, 32}},
      {.name = "optimizer", .high = 1, .choices = {"adam", "sgd"}}};
  const std::vector<TrialOutcome> trials = {{{1, 8, 1, 0}, 0.1},
                                            {{2, 5, 2, 1}, 0.3},
                                            {{7, 2, 0, 0}, 0.9},
                                            {{9, 9, 0, 0}, kNan}};
  const auto importances = HparamImportances(axes, trials, false, 0.5);
  std::map<std::string, std::optional<double>> found;
  for (const auto& one : importances) found[one.name] = one.correlation;
  EXPECT_EQ(found.at("up"), 1);
  EXPECT_EQ(found.at("down"), -1);
  EXPECT_EQ(found.at("batch"), 1);  // 16, 32, 64 in the order of their values
  EXPECT_EQ(found.at("optimizer"), std::nullopt);
}

TEST(ImportanceTest, CorrelatesTheTrialsThatHaveTheHparam) {
  const std::vector<TrialOutcome> trials = {
      {{1}, 1}, {{kNan}, 2}, {{2}, 3}, {{3}, 4}};
  const auto importances =
      HparamImportances({Numbers("up")}, trials, true, 0.5);
  EXPECT_EQ(importances.at(0).correlation, 1);
}

TEST(ImportanceTest, IsZeroWithoutTrials) {
  const auto importances =
      HparamImportances({Numbers("a"), Numbers("b")}, {}, true, 0.1);
  ASSERT_EQ(importances.size(), 2u);
  EXPECT_EQ(importances[0].divergence, 0);
  EXPECT_EQ(importances[0].share, 0);
  EXPECT_EQ(importances[0].correlation, std::nullopt);
}

TEST(ImportanceTest, KeepsTheOrderOfEqualImportances) {
  const std::vector<TrialOutcome> trials(20, {{4, 4}, 1});
  const auto importances =
      HparamImportances({Numbers("b"), Numbers("a")}, trials, true, 0.1);
  EXPECT_THAT(std::vector({importances[0].name, importances[1].name}),
              ElementsAre("b", "a"));
}

// A part of a category has its own importance and takes none from the others.
TEST(ImportanceTest, CountsACategoryOnce) {
  const json space = {{"opt",
                       {{"type", "categorical"},
                        {"vals", {{{"name", "adam"}}, {{"name", "sgd"}}}}}},
                      {"x", {{"type", "int"}, {"minval", 0}, {"maxval", 1}}}};
  const auto axes = SearchAxes(space, /*grid=*/true);
  json trials = json::array();
  for (int i = 0; i < 20; ++i) {
    trials.push_back({{"value", i},
                      {"hparams",
                       {{"opt", {{"name", i < 6 ? "adam" : "sgd"}}},
                        {"x", i % 3 == 0 ? 1 : 0}}}});
  }
  std::map<std::string, double> shares;
  for (const auto& one :
       HparamImportances(axes, MakeOutcomes(axes, trials),
                         /*smaller_is_better=*/true, /*quantile=*/0.2)) {
    shares[one.name] = one.share;
  }
  EXPECT_NEAR(shares.at("opt") + shares.at("x"), 1, 1e-9);
  EXPECT_GT(shares.at("opt"), 0.5);
  EXPECT_EQ(shares.at("opt.name"), shares.at("opt"));
}

}  // namespace
}  // namespace dtrain

#include "searchers/hparam_constraints.h"

#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "searchers/hparam_grid.h"
#include "searchers/hparam_space.h"
#include "searchers/point_space.h"
#include "searchers/registry.h"
#include "searchers/search_plan.h"
#include "searchers/simulation.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const json kConstrainedSpace = json::parse(R"({
  "width": {"type": "int", "minval": 1, "maxval": 64},
  "layers": {"type": "int", "minval": 1, "maxval": 8},
  "lr": {"type": "double", "minval": 0, "maxval": 1},
  "val/acc": {"type": "double", "minval": 0, "maxval": 1},
  "opt": {"type": "categorical", "vals": ["adam", "sgd"]},
  "momentum": {"type": "double", "minval": 0, "maxval": 1,
               "when": {"opt": ["sgd"]}},
  "cap": {"type": "categorical", "vals": [null, 16]},
  "mixed": {"type": "categorical", "vals": ["auto", 4]},
  "flag": {"type": "categorical", "vals": [true, false]},
  "net": {"heads": {"type": "int", "minval": 0, "maxval": 4}},
  "head": {"type": "categorical",
           "vals": [{"name": "a", "size": 2}, {"name": "b", "size": 3}]},
  "sizes": [1, 2],
  "batch": 64})");

const json kTrial = json::parse(R"({
  "width": 32, "layers": 4, "lr": 0.5, "val/acc": 0.25, "opt": "adam",
  "cap": null, "mixed": "auto", "flag": true, "net": {"heads": 0},
  "head": {"name": "b", "size": 3}, "sizes": [1, 2], "batch": 64})");

bool Holds(const std::string& constraint) {
  return HparamConstraints(kConstrainedSpace, {constraint}).Hold(kTrial);
}

TEST(HparamConstraintsTest, HoldOrNot) {
  struct Case {
    const char* constraint;
    bool holds;
  };
  const Case cases[] = {
      {"width * layers <= 128", true},
      {"width * layers < 128", false},
      {"128 >= width * layers", true},
      {"width > layers", true},
      {"layers > width", false},
      {"width % layers == 0", true},
      {"(width + layers) / 2 == 18", true},
      {"val/acc * 2 == lr", true},
      {"opt == adam and lr < 1", true},
      {"opt != 'adam'", false},
      {"not opt == sgd", true},
      {"opt in (sgd) or width > 1", true},
      {"flag == true", true},
      {"batch == 64", true},
      {"batch == width * 2", true},
      {"head.size > 2", true},
      {"head.name == b", true},
      // Absent, and null: both a comparison and its opposite hold.
      {"momentum < 0.5", true},
      {"momentum * 2 >= lr", true},
      {"not momentum < 0.5", true},
      {"cap > width", true},
      {"not cap > width", true},
      {"momentum < 0.5 and width < 4", false},
      {"momentum is null", true},
      {"momentum is not null", false},
      {"cap is null", true},
      // A division by zero, and a text that might have been a number.
      {"width / net.heads > 0", false},
      {"width / net.heads != 0", false},
      {"not width / net.heads > 0", true},
      {"mixed * 2 > 1", false},
      {"mixed == auto", true},
      // Only constants.
      {"1 < 2", true},
      {"batch > 64", false}};
  for (const auto& [constraint, holds] : cases) {
    SCOPED_TRACE(constraint);
    EXPECT_EQ(Holds(constraint), holds);
  }
}

TEST(HparamConstraintsTest, NameTheFirstThatIsViolated) {
  const HparamConstraints constraints(kConstrainedSpace,
                                      {"width > 1", "layers > 4", "lr > 1"});
  EXPECT_EQ(constraints.FindViolated(kTrial), "layers > 4");
  EXPECT_EQ(HparamConstraints().FindViolated(kTrial), "");
  EXPECT_TRUE(HparamConstraints(kConstrainedSpace, {}).empty());
}

TEST(HparamConstraintsTest, MayHoldUnlessTheKnownValuesDecide) {
  const HparamConstraints constraints(
      kConstrainedSpace,
      {"width * layers <= 64 or opt == sgd", "momentum is not null"});
  EXPECT_TRUE(constraints.MayHold({{"width", 32}}));
  EXPECT_TRUE(constraints.MayHold({{"width", 32}, {"layers", 4}}));
  EXPECT_FALSE(
      constraints.MayHold({{"width", 32}, {"layers", 4}, {"opt", "adam"}}));
}

TEST(HparamConstraintsTest, ExplainWhatIsWrong) {
  struct Case {
    const char* constraint;
    const char* message;
  };
  const Case cases[] = {
      {"widht < 3",
       "'widht < 3': at character 1: there is no hyperparameter 'widht'; did "
       "you mean 'width'?"},
      {"width*layers <= 3", "to calculate, write blanks around *"},
      {"net > 3",
       "there is no hyperparameter 'net'; it is a map: name one of its "
       "hyperparameters, such as net.heads"},
      {"sizes > 3", "'sizes' has a value that is a list"},
      {"head == a",
       "'head' has a value that is a map, which cannot be compared; name a "
       "part of it, such as head.name"},
      {"width * opt < 3", "expected a number at character 9; 'opt' is a text"},
      {"opt > 3", "expected ==, !=, ~ or in at character 5; 'opt' is a text"},
      {"opt == sdg", "it is one of adam, sgd; did you mean 'sgd'?"},
      {"width < wide", "expected a number at character 9"},
      {"width * < 3", "expected a number or name at character 9"},
      {"width", "expected an operator"},
      {"width = 3", "write == for equal"},
      {"width <", "expected a value at character 8"},
      {"", "expected a name at character 1"},
      {"min(width) < 3", "there is no hyperparameter 'min(width)'"},
      {"opt ~ '('", "missing )"}};
  for (const auto& [constraint, message] : cases) {
    SCOPED_TRACE(constraint);
    try {
      HparamConstraints(kConstrainedSpace, {constraint});
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr(message));
      EXPECT_EQ(error.what()[0], '\'') << error.what();
    }
  }
}

// A constant may have been set for a part of the search.
TEST(HparamConstraintsTest, AllowOtherTextsThanAConstant) {
  EXPECT_TRUE(HparamConstraints({{"opt", "adam"}}, {"opt != sgd"})
                  .Hold({{"opt", "adam"}}));
}

TEST(HparamConstraintsTest, CompareIntegersExactly) {
  const json space = {{"n", std::numeric_limits<std::uint64_t>::max()},
                      {"m", 9007199254740993}};
  EXPECT_TRUE(
      HparamConstraints(space, {"n > 9223372036854775807"}).Hold(space));
  EXPECT_TRUE(
      HparamConstraints(space, {"m - 1 == 9007199254740992"}).Hold(space));
}

// --- Searches ---

const json kSearched = json::parse(R"({
  "width": {"type": "categorical", "vals": [64, 128, 256, 512]},
  "layers": {"type": "int", "minval": 1, "maxval": 16},
  "opt": {"type": "categorical", "vals": ["adam", "sgd"]},
  "momentum": {"type": "double", "minval": 0, "maxval": 1, "count": 3,
               "when": {"opt": ["sgd"]}}})");
const std::vector<std::string> kConstraints = {
    "width * layers <= 512", "momentum < 0.75 and layers > 1"};

bool IsFeasible(const json& hparams) {
  const std::int64_t layers = hparams.at("layers");
  return hparams.at("width").get<std::int64_t>() * layers <= 512 &&
         layers > 1 && hparams.value("momentum", 0.0) < 0.75;
}

TEST(HparamConstraintsTest, LeaveOutPointsOfAGrid) {
  const HparamGrid all(kSearched);
  const HparamGrid grid(kSearched, HparamGrid::kNoLimit, kConstraints);
  std::vector<json> expected;
  for (std::int64_t i = 0; i < all.size(); ++i) {
    if (IsFeasible(all.At(i))) expected.push_back(all.At(i));
  }
  std::vector<json> points;
  for (std::int64_t i = 0; i < grid.size(); ++i) points.push_back(grid.At(i));

  EXPECT_EQ(points, expected);
  EXPECT_EQ(points.size(), 3u * (7 + 3 + 1));
  EXPECT_EQ(HparamGrid(kSearched, 5, kConstraints).size(), 6);
  EXPECT_EQ(HparamGrid(kSearched, 0, {"layers > 16"}).size(), 0);
}

TEST(HparamConstraintsTest, LimitWhatAGridTries) {
  json space;
  for (const char* name : {"a", "b", "c", "d"}) {
    space[name] = {{"type", "int"}, {"minval", 1}, {"maxval", 100}};
  }
  // The first one ends each branch early, the second one at its last value.
  EXPECT_EQ(
      HparamGrid(space, 100, {"a < 3 and b < 3 and c < 3 and d < 3"}).size(),
      16);
  EXPECT_EQ(HparamGrid(space, 100, {"d < 1"}).size(), 101);
}

SearcherConfig Constrained(const std::string& name) {
  return {.name = name,
          .max_length = 16,
          .max_trials = 40,
          .max_concurrent_trials = 4,
          .constraints = kConstraints};
}

std::vector<json> CreatedBy(const SearcherConfig& config) {
  const auto searcher = MakeSearcher(config, kSearched, /*seed=*/3);
  std::vector<json> hparams;
  for (const SimulatedTrial& trial :
       Simulate(*searcher, {.metric = FindSimulatedMetric("hash")}).trials) {
    hparams.push_back(trial.created.hparams);
  }
  return hparams;
}

class ConstrainedSearchTest : public testing::TestWithParam<std::string> {};

TEST_P(ConstrainedSearchTest, CreatesOnlyTrialsThatMeetThem) {
  const SearcherConfig config = Constrained(GetParam());

  const std::vector<json> hparams = CreatedBy(config);

  EXPECT_GE(hparams.size(), 10u);
  for (const json& one : hparams) EXPECT_TRUE(IsFeasible(one)) << one;
  EXPECT_EQ(CreatedBy(config), hparams);
  if (GetParam() == "grid") {
    EXPECT_EQ(PlanSearch(config, kSearched).max_trials, 33);
  }
}

TEST_P(ConstrainedSearchTest, DrawsAsBeforeIfAllPointsMeetThem) {
  SearcherConfig config = Constrained(GetParam());
  config.constraints = {"layers > 0"};
  const std::vector<json> met = CreatedBy(config);
  config.constraints.clear();

  EXPECT_EQ(CreatedBy(config), met);
}

TEST_P(ConstrainedSearchTest, DrawsTheRestOfAPointAgain) {
  if (GetParam() == "grid") return;  // has no points
  SearcherConfig config = Constrained(GetParam());
  config.points = {json::parse(R"({"width": 256})"),
                   json::parse(R"({"layers": 8})")};

  const std::vector<json> hparams = CreatedBy(config);

  EXPECT_EQ(hparams.at(0).at("width"), 256);
  EXPECT_EQ(hparams.at(0).at("layers"), 2);
  EXPECT_EQ(hparams.at(1).at("width"), 64);
}

std::vector<std::string> MethodsWithConstraints() {
  std::vector<std::string> names;
  for (const SearcherEntry& entry : SearcherTable()) {
    if (entry.keys.find("constraints") != entry.keys.npos) {
      names.emplace_back(entry.name);
    }
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, ConstrainedSearchTest,
                         testing::ValuesIn(MethodsWithConstraints()),
                         [](const auto& info) { return info.param; });

// The draws that violate a constraint are those of a search without it.
TEST(HparamConstraintsTest, DrawAgainFromTheSameStream) {
  Rng rng(9);
  Rng same(9);
  const PointSpace space(kSearched, /*orders_lists=*/true, kConstraints);
  const Point point = space.Draw(rng);
  json hparams;
  int draws = 0;
  do {
    hparams = SampleHparams(kSearched, same);
    ++draws;
  } while (!IsFeasible(hparams));

  EXPECT_GT(draws, 1);
  EXPECT_EQ(space.Decode(point), hparams);
  EXPECT_EQ(rng.Save(), same.Save());
  EXPECT_TRUE(space.MeetsConstraints(point));
}

TEST(HparamConstraintsTest, TakeTheLastDrawIfNoneMeetsThem) {
  SearcherConfig config = Constrained("random");
  config.max_trials = 1;
  config.constraints = {"x > 4"};
  const json space =
      json::parse(R"({"x": {"type": "int", "minval": 1, "maxval": 4}})");
  const auto searcher = MakeSearcher(config, space, /*seed=*/3);

  EXPECT_EQ(searcher->Handle(Started{}).size(), 3u);
}

// Few points are feasible, and no candidate of the model may be one.
TEST(HparamConstraintsTest, LetAModelSearchRarePoints) {
  const json space = json::parse(R"({
    "a": {"type": "int", "minval": 1, "maxval": 1000},
    "b": {"type": "int", "minval": 1, "maxval": 1000}})");
  SearcherConfig config = Constrained("bayesian_asha");
  config.constraints = {"a % 50 == 0 and b % 20 == 7"};
  const auto searcher = MakeSearcher(config, space, /*seed=*/1);

  const Simulation simulation =
      Simulate(*searcher, {.metric = FindSimulatedMetric("hash")});

  EXPECT_GE(simulation.trials.size(), 10u);
  for (const SimulatedTrial& trial : simulation.trials) {
    EXPECT_EQ(trial.created.hparams.at("a").get<int>() % 50, 0);
  }
}

}  // namespace
}  // namespace dtrain

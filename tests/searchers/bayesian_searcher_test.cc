#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "searchers/registry.h"
#include "searchers/search_plan.h"

namespace dtrain {
namespace {

using nlohmann::json;

const json& ModelSpace() {
  static const json space = json::parse(R"({
    "lr": {"type": "log", "minval": -4, "maxval": -1},
    "momentum": {"type": "double", "minval": 0, "maxval": 1},
    "net": {"layers": {"type": "int", "minval": 1, "maxval": 8},
            "act": {"type": "categorical", "vals": ["relu", "tanh", "elu"]}},
    "batch": 64})");
  return space;
}

SearcherConfig ModelConfig(std::int64_t trials) {
  return {.name = "bayesian_asha",
          .max_length = 64,
          .max_trials = trials,
          .max_concurrent_trials = 4,
          .num_rungs = 4,
          .divisor = 4};
}

// A loss with its minimum inside the space, which falls with the length.
double FallingLoss(const json& hparams, std::int64_t length) {
  const double x = hparams.at("lr").get<double>() * 100 - 1;
  const double y = hparams.at("momentum").get<double>() - 0.7;
  const double z = hparams.at("net").at("layers").get<double>() / 8 - 0.5;
  const double kind = hparams.at("net").at("act") == "tanh" ? 0 : 0.3;
  return 0.1 * x * x + y * y + z * z + kind + 1 / static_cast<double>(length);
}

// True for 5 % of the points.
bool IsInSmallRegion(const json& hparams) {
  return hparams.at("momentum").get<double>() >= 0.95;
}

// The course of a search whose trials end in the order of their operations.
struct ModelCourse {
  std::vector<json> hparams;          // by trial
  std::vector<std::int64_t> lengths;  // by trial, the longest
  std::vector<std::string> operations;
  bool failed = false;

  std::int64_t total() const {
    std::int64_t sum = 0;
    for (const std::int64_t length : lengths) sum += length;
    return sum;
  }
  double best_loss(std::int64_t length) const {
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < hparams.size(); ++i) {
      if (lengths[i] >= length)
        best = std::min(best, FallingLoss(hparams[i], length));
    }
    return best;
  }
};

// `metric`: of hyperparameters and a length; nothing: the trial ends for
// `reason`.
template <typename Metric>
ModelCourse PlayModel(const SearcherConfig& config, Metric metric,
                      std::uint32_t seed, const json& space = ModelSpace(),
                      ExitReason reason = ExitReason::kErrored) {
  const auto searcher = MakeSearcher(config, space, seed);
  ModelCourse course;
  std::deque<Event> events = {Started{}};
  while (!events.empty()) {
    const Event event = events.front();
    events.pop_front();
    for (const Operation& operation : searcher->Handle(event)) {
      course.operations.push_back(ToJson(operation).dump());
      if (const auto* create = std::get_if<Create>(&operation)) {
        course.hparams.push_back(create->hparams);
        course.lengths.push_back(0);
      } else if (const auto* more = std::get_if<ValidateAfter>(&operation)) {
        const auto at = static_cast<std::size_t>(more->trial);
        const std::optional<double> value =
            metric(course.hparams[at], more->length);
        if (!value) {
          events.push_back(ExitedEarly{more->trial, reason});
          continue;
        }
        course.lengths[at] = more->length;
        events.push_back(
            ValidationCompleted{more->trial, more->length, *value,
                                1.0 + static_cast<double>(more->trial % 5)});
      } else if (const auto* close = std::get_if<Close>(&operation)) {
        events.push_back(Closed{close->trial});
      } else if (const auto* end = std::get_if<Shutdown>(&operation)) {
        course.failed = end->failed;
      }
    }
  }
  return course;
}

// FNV-1a over all operations.
std::uint64_t HashOperations(const ModelCourse& course) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::string& operation : course.operations) {
    for (const char c : operation) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
  }
  return hash;
}

// The number is that of every machine and compiler: scripts/model_hash builds
// the search with several and runs this test.
TEST(BayesianSearcherTest, DecidesTheSameOnEveryMachine) {
  SearcherConfig config = ModelConfig(200);
  config.rules = 1;  // counts time
  const ModelCourse course = PlayModel(config, FallingLoss, 7);

  EXPECT_GT(course.hparams.size(), 50u);
  EXPECT_EQ(HashOperations(course), 17966974842252489433u);
}

TEST(BayesianSearcherTest, IgnoresScaleAndOffsetOfTheMetric) {
  const ModelCourse plain = PlayModel(ModelConfig(60), FallingLoss, 1);

  const ModelCourse scaled = PlayModel(
      ModelConfig(60),
      [](const json& h, std::int64_t length) {
        return 10 * FallingLoss(h, length);
      },
      1);
  const ModelCourse shifted = PlayModel(
      ModelConfig(60),
      [](const json& h, std::int64_t length) {
        return FallingLoss(h, length) + 5;
      },
      1);

  EXPECT_EQ(plain.operations, scaled.operations);
  EXPECT_EQ(plain.operations, shifted.operations);
}

TEST(BayesianSearcherTest, MaximizesIfLargerIsBetter) {
  SearcherConfig config = ModelConfig(60);
  const ModelCourse smaller = PlayModel(config, FallingLoss, 1);
  config.smaller_is_better = false;

  const ModelCourse larger = PlayModel(
      config,
      [](const json& h, std::int64_t length) {
        return -FallingLoss(h, length);
      },
      1);

  EXPECT_EQ(smaller.operations, larger.operations);
}

TEST(BayesianSearcherTest, FindsBetterTrialsThanHalvingAtTheSameCost) {
  SearcherConfig halving = ModelConfig(150);
  halving.name = "async_halving";
  int better = 0;
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    const ModelCourse model = PlayModel(ModelConfig(150), FallingLoss, seed);
    const ModelCourse plain = PlayModel(halving, FallingLoss, seed);
    EXPECT_LE(model.total(), plain.total() + 4 * 48);
    better += model.best_loss(64) < plain.best_loss(64);
  }

  EXPECT_GE(better, 4);
}

TEST(BayesianSearcherTest, SpendsItsBudgetAndEnds) {
  SearcherConfig config = ModelConfig(1000);
  config.budget = 500;

  const ModelCourse course = PlayModel(config, FallingLoss, 3);

  EXPECT_GE(course.total(), 500);
  EXPECT_LT(course.total(), 500 + 48);
}

// A trial that failed has used what it was given; what an invalid one was given
// is for others.
TEST(BayesianSearcherTest, OnlyInvalidTrialsGiveTheirBudgetBack) {
  SearcherConfig config = ModelConfig(1000);
  config.budget = 500;
  for (const ExitReason reason :
       {ExitReason::kInvalidHp, ExitReason::kErrored}) {
    std::int64_t ended = 0;
    const ModelCourse course = PlayModel(
        config,
        [&](const json& h, std::int64_t length) {
          const bool ends = h.at("momentum").get<double>() < 0.5;
          ended += ends ? 1 : 0;
          return ends ? std::optional<double>()
                      : std::optional(FallingLoss(h, length));
        },
        3, ModelSpace(), reason);

    ASSERT_GT(ended, 10);
    const std::int64_t lost = reason == ExitReason::kInvalidHp ? 0 : ended;
    EXPECT_GE(course.total() + lost, 500);
    EXPECT_LT(course.total() + lost, 500 + 48);
  }
}

TEST(BayesianSearcherTest, EndsAfterTheTrainingTimeOfTheBudget) {
  SearcherConfig config = ModelConfig(1000);
  config.budget_seconds = 1;

  const ModelCourse course = PlayModel(config, FallingLoss, 3);

  EXPECT_EQ(course.lengths, (std::vector<std::int64_t>{1, 1, 1, 1}));
}

TEST(BayesianSearcherTest, TriesEveryPointOfAFiniteSpaceOnce) {
  const json space = json::parse(R"({
    "a": {"type": "int", "minval": 1, "maxval": 4},
    "b": {"type": "categorical", "vals": ["x", "y", "z"]}})");

  SearcherConfig config = ModelConfig(100);
  config.budget = 100'000;

  const ModelCourse course = PlayModel(
      config,
      [](const json& h, std::int64_t) { return h.at("a").get<double>(); }, 1,
      space);

  const std::set<json> points(course.hparams.begin(), course.hparams.end());
  EXPECT_EQ(points.size(), 12u);
  EXPECT_EQ(course.hparams.size(), 12u);
  EXPECT_EQ(course.lengths, std::vector<std::int64_t>(12, 64));
}

TEST(BayesianSearcherTest, TriesThePointsFirst) {
  SearcherConfig config = ModelConfig(20);
  const json point = json::parse(
      R"({"lr": 0.01, "momentum": 0.5, "net": {"layers": 2, "act": "elu"}})");
  config.points = {point};

  const ModelCourse course = PlayModel(config, FallingLoss, 1);

  json expected = point;
  expected["batch"] = 64;
  EXPECT_EQ(course.hparams.front(), expected);
}

TEST(BayesianSearcherTest, EndsIfNearlyAllResultsAreNoNumbers) {
  const ModelCourse course = PlayModel(
      ModelConfig(100),
      [](const json& h, std::int64_t length) {
        return IsInSmallRegion(h) ? FallingLoss(h, length) : std::nan("");
      },
      1);

  // All but a few trials end at the lowest rung, so that max_trials ends it.
  EXPECT_EQ(course.hparams.size(), 100u);
  EXPECT_FALSE(course.failed);
}

TEST(BayesianSearcherTest, EndsWithAConstantMetric) {
  const ModelCourse course = PlayModel(
      ModelConfig(100), [](const json&, std::int64_t) { return 0.5; }, 1);

  EXPECT_FALSE(course.failed);
  EXPECT_GE(course.total(), SearchBudget(ModelConfig(100)));
}

TEST(BayesianSearcherTest, FailsIfAllTrialsFail) {
  const ModelCourse course = PlayModel(
      ModelConfig(100),
      [](const json&, std::int64_t) { return std::optional<double>(); }, 1);

  EXPECT_TRUE(course.failed);
  EXPECT_GE(course.hparams.size(), 8u);
  EXPECT_LE(course.hparams.size(), 100u);
}

// A hard case for a model, in which it must not be worse than random search.
struct HardCase {
  const char* name;
  std::optional<double> (*metric)(const json& hparams, std::int64_t length);
};

class HardModelTest : public testing::TestWithParam<HardCase> {
 protected:
  // Mean over ten seeds of the best loss at the maximum length.
  static double MeanOfBest(const SearcherConfig& config) {
    double sum = 0;
    for (std::uint32_t seed = 1; seed <= 10; ++seed) {
      ModelCourse course = PlayModel(config, GetParam().metric, seed);
      double best = 2;  // worse than any
      for (std::size_t i = 0; i < course.hparams.size(); ++i) {
        if (course.lengths[i] < 64) continue;
        const auto value = GetParam().metric(course.hparams[i], 64);
        if (value && *value < best) best = *value;
      }
      sum += best / 10;
    }
    return sum;
  }
};

TEST_P(HardModelTest, IsNoWorseThanRandom) {
  const SearcherConfig model = ModelConfig(100);
  SearcherConfig random = model;
  random.name = "random";
  random.max_trials = SearchBudget(model) / model.max_length;

  EXPECT_LE(MeanOfBest(model), MeanOfBest(random));
}

INSTANTIATE_TEST_SUITE_P(
    All, HardModelTest,
    testing::Values(
        HardCase{"UselessHyperparameters",
                 [](const json& h, std::int64_t length) {
                   const double x = h.at("momentum").get<double>() - 0.7;
                   return std::optional(x * x +
                                        1 / static_cast<double>(length));
                 }},
        HardCase{"NearlyAllNoNumbers",
                 [](const json& h, std::int64_t length) {
                   return std::optional(IsInSmallRegion(h)
                                            ? FallingLoss(h, length)
                                            : std::nan(""));
                 }},
        HardCase{"NearlyAllFail",
                 [](const json& h, std::int64_t length) {
                   return IsInSmallRegion(h)
                              ? std::optional(FallingLoss(h, length))
                              : std::nullopt;
                 }},
        HardCase{"Constant",
                 [](const json&, std::int64_t) { return std::optional(0.5); }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dtrain

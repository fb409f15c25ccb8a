#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
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
  std::vector<Searcher::Expectation> expected;  // at the end
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
  course.expected = searcher->FindExpectations();
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

// The numbers are those of every machine and compiler: scripts/model_hash
// builds the search with several and runs this test. A recorded search keeps
// its rules, so theirs never change.
TEST(BayesianSearcherTest, DecidesTheSameOnEveryMachine) {
  const std::map<std::int64_t, std::uint64_t> hashes = {
      {1, 17966974842252489433u},
      {2, 17966974842252489433u},
      {3, 3407499344329534680u}};
  for (const auto& [rules, hash] : hashes) {
    SCOPED_TRACE(rules);
    SearcherConfig config = ModelConfig(200);
    config.cost = "time";
    config.rules = rules;
    const ModelCourse course = PlayModel(config, FallingLoss, 7);

    EXPECT_GT(course.hparams.size(), 50u);
    EXPECT_EQ(HashOperations(course), hash);
  }
}

// Rules 1 and 2 do not learn where points are invalid.
TEST(BayesianSearcherTest, KeepsRecordedSearchesWithInvalidTrials) {
  const std::map<std::int64_t, std::uint64_t> hashes = {
      {1, 15573208153106603880u},
      {2, 15573208153106603880u},
      {3, 14152954695509344656u}};
  for (const auto& [rules, hash] : hashes) {
    SCOPED_TRACE(rules);
    SearcherConfig config = ModelConfig(80);
    config.cost = "length";
    config.rules = rules;

    const ModelCourse course = PlayModel(
        config,
        [](const json& h, std::int64_t length) {
          return h.at("momentum").get<double>() < 0.5
                     ? std::optional<double>()
                     : std::optional(FallingLoss(h, length));
        },
        7, ModelSpace(), ExitReason::kInvalidHp);

    EXPECT_EQ(HashOperations(course), hash);
  }
}

// Rules 2 wait for a result at length 16, the second-highest rung.
TEST(BayesianSearcherTest, BeginsWithTheModelAfterEightResults) {
  const auto course = [](std::int64_t rules) {
    SearcherConfig config = ModelConfig(40);
    config.max_concurrent_trials = 1;
    config.rules = rules;
    return PlayModel(config, FallingLoss, 5);
  };
  const ModelCourse before = course(2);
  const ModelCourse now = course(3);
  const auto is_top = [](const std::string& operation) {
    return operation.find("\"length\":16") != std::string::npos;
  };

  const auto first = std::ranges::mismatch(before.operations, now.operations);

  EXPECT_EQ(std::ranges::find_if(now.operations.begin(), first.in2, is_top),
            first.in2);
  std::int64_t results = 0;
  for (auto at = now.operations.begin(); at != first.in2; ++at) {
    results += at->find("length") != std::string::npos;
  }
  EXPECT_GE(results, 8);
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

TEST(BayesianSearcherTest, ExpectsValuesInTheUnitOfTheMetric) {
  SearcherConfig config = ModelConfig(60);
  const ModelCourse plain = PlayModel(config, FallingLoss, 1);
  config.smaller_is_better = false;
  const ModelCourse larger = PlayModel(
      config,
      [](const json& h, std::int64_t length) {
        return 100 - 10 * FallingLoss(h, length);
      },
      1);

  ASSERT_EQ(plain.expected.size(), plain.hparams.size());
  ASSERT_EQ(larger.expected.size(), plain.hparams.size());
  for (std::size_t i = 0; i < plain.expected.size(); ++i) {
    const auto& [trial, mean, deviation] = plain.expected[i];
    EXPECT_EQ(larger.expected[i].trial, trial);
    EXPECT_NEAR(larger.expected[i].mean, 100 - 10 * mean, 1e-6);
    EXPECT_NEAR(larger.expected[i].deviation, 10 * deviation, 1e-6);
    const auto at = static_cast<std::size_t>(trial);
    const double loss = FallingLoss(plain.hparams[at], 64);
    // The worse half of the results is cut off.
    if (plain.lengths[at] < 64 || loss > 0.1) continue;
    EXPECT_NEAR(mean, loss, 0.02 + 3 * deviation) << trial;
  }
  EXPECT_TRUE(PlayModel(ModelConfig(6), FallingLoss, 1).expected.empty())
      << "too few results";
  const ModelCourse alike = PlayModel(
      ModelConfig(60), [](const json&, std::int64_t) { return 1.0; }, 1);
  EXPECT_TRUE(alike.expected.empty()) << "nothing to tell";
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

// Searches 1 to 5 in a space with this range, and returns its operations.
std::vector<std::string> PlayList(const std::string& range,
                                  double (*position)(double value),
                                  std::int64_t rules = kCurrentRules) {
  SearcherConfig config = ModelConfig(40);
  config.rules = rules;
  const json space = {
      {"x", json::parse(range)},
      {"y", {{"type", "double"}, {"minval", 0}, {"maxval", 1}}}};
  ModelCourse course = PlayModel(
      config,
      [&](const json& h, std::int64_t length) {
        const double x = position(h.at("x").get<double>()) - 4;
        const double y = h.at("y").get<double>() - 0.5;
        return x * x + y * y + 1 / static_cast<double>(length);
      },
      1, space);
  for (std::string& operation : course.operations) {
    json created = json::parse(operation);
    if (!created.contains("hparams")) continue;
    json& x = created["hparams"]["x"];
    x = position(x.get<double>());
    operation = created.dump();
  }
  return course.operations;
}

double Itself(double value) { return value; }
double Mirrored(double value) { return 6 - value; }
double Log2(double value) { return std::log2(value); }

// The model sees the ranks of an ordered list, as it sees those of integers.
TEST(BayesianSearcherTest, SearchesAnOrderedListLikeIntegers) {
  const auto integers =
      PlayList(R"({"type": "int", "minval": 1, "maxval": 5})", Itself);
  const auto list = [](const std::string& values, auto position,
                       std::int64_t rules = kCurrentRules) {
    return PlayList(R"({"type": "categorical", "vals": )" + values + "}",
                    position, rules);
  };

  EXPECT_EQ(list("[1, 2, 3, 4, 5]", Itself), integers);
  EXPECT_EQ(list("[5, 4, 3, 2, 1]", Mirrored), integers);
  EXPECT_EQ(list("[2, 4, 8, 16, 32]", Log2), integers);
  EXPECT_EQ(list(R"([2, 4.0, 8, 16, 32], "ordered": true)", Log2), integers);
  const auto names = list(R"([1, 2, 3, 4, 5], "ordered": false)", Itself);
  EXPECT_NE(names, integers);
  EXPECT_EQ(list(R"([1, 2, 3, 4, 5], "ordered": true)", Itself, 2),
            list(R"([1, 2, 3, 4, 5], "ordered": false)", Itself, 2));
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

    ASSERT_GE(ended, 5);
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

  EXPECT_LE(course.hparams.size(), 100u);
  EXPECT_GE(course.total(), SearchBudget(ModelConfig(100)));
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

// A rule by which half of the points are invalid.
struct ValidityCase {
  const char* name;
  bool (*is_valid)(const json& hparams);
};

class LearnedValidityTest : public testing::TestWithParam<ValidityCase> {
 protected:
  struct Proposals {
    int by_model = 0;
    int by_halving = 0;
    int invalid_by_model = 0;
    int invalid_by_halving = 0;
  };

  // Counts what is proposed after 20 trials, and by which rule. Every third
  // decision is that of asynchronous halving, which draws at random.
  static void Count(std::int64_t rules, std::uint32_t seed, Proposals& count) {
    SearcherConfig config = ModelConfig(100);
    config.max_concurrent_trials = 1;
    config.rules = rules;
    const auto searcher = MakeSearcher(config, ModelSpace(), seed);
    std::vector<json> hparams;
    std::deque<Event> events = {Started{}};
    std::int64_t decisions = 0;
    while (!events.empty()) {
      const auto operations = searcher->Handle(events.front());
      events.pop_front();
      for (const Operation& operation : operations) {
        if (const auto* create = std::get_if<Create>(&operation)) {
          const bool by_halving = (decisions + 1) % 3 == 0;
          const bool is_invalid = !GetParam().is_valid(create->hparams);
          if (hparams.size() >= 20 && by_halving) {
            ++count.by_halving;
            count.invalid_by_halving += is_invalid;
          } else if (hparams.size() >= 20) {
            ++count.by_model;
            count.invalid_by_model += is_invalid;
          }
          hparams.push_back(create->hparams);
        } else if (const auto* more = std::get_if<ValidateAfter>(&operation)) {
          ++decisions;
          const json& trial = hparams[static_cast<std::size_t>(more->trial)];
          if (!GetParam().is_valid(trial)) {
            events.push_back(ExitedEarly{more->trial, ExitReason::kInvalidHp});
          } else {
            events.push_back(
                ValidationCompleted{more->trial, more->length,
                                    FallingLoss(trial, more->length), 1});
          }
        } else if (const auto* close = std::get_if<Close>(&operation)) {
          events.push_back(Closed{close->trial});
        }
      }
    }
    EXPECT_EQ(searcher->Save().at("decisions"), decisions);
  }
};

TEST_P(LearnedValidityTest, IsProposedInNineOfTenTrials) {
  Proposals before;
  Proposals now;
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    Count(2, seed, before);
    Count(3, seed, now);
  }

  RecordProperty("before", std::to_string(before.invalid_by_model) + "/" +
                               std::to_string(before.by_model));
  RecordProperty("now", std::to_string(now.invalid_by_model) + "/" +
                            std::to_string(now.by_model));
  EXPECT_GE(now.by_model, 100);
  EXPECT_LE(now.invalid_by_model * 10, now.by_model);
  EXPECT_GE(now.invalid_by_halving, 1);
}

INSTANTIATE_TEST_SUITE_P(
    All, LearnedValidityTest,
    testing::Values(ValidityCase{"OneHyperparameter",
                                 [](const json& h) {
                                   return h.at("momentum").get<double>() >= 0.5;
                                 }},
                    ValidityCase{
                        "Product",
                        [](const json& h) {
                          return h.at("momentum").get<double>() *
                                     h.at("net").at("layers").get<int>() <=
                                 1.9;
                        }},
                    ValidityCase{"BestIsInvalid",
                                 [](const json& h) {
                                   return h.at("momentum").get<double>() < 0.5;
                                 }}),
    [](const auto& info) { return info.param.name; });

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

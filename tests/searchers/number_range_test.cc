#include "searchers/number_range.h"

#include <cmath>
#include <limits>
#include <ostream>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "searchers/hparam_space.h"
#include "searchers/point_space.h"

namespace dtrain {
namespace {

using nlohmann::json;

struct Steps {
  const char* name;
  const char* range;
  std::vector<double> values;
};

void PrintTo(const Steps& steps, std::ostream* out) { *out << steps.range; }

class SteppedRangeTest : public testing::TestWithParam<Steps> {};

TEST_P(SteppedRangeTest, HasTheDecimalsThatItsBoundsMean) {
  const json range = json::parse(GetParam().range);
  const SteppedRange steps(range);

  ASSERT_EQ(steps.last() + 1, GetParam().values.size());
  for (std::uint64_t i = 0; i <= steps.last(); ++i) {
    EXPECT_EQ(steps.At(i), GetParam().values[i]);
    EXPECT_EQ(steps.Find(GetParam().values[i] *
                         (1 + std::numeric_limits<double>::epsilon())),
              range["type"] == "int" ? std::nullopt : std::optional(i));
    EXPECT_EQ(steps.Find(steps.At(i)), i);
  }
  EXPECT_EQ(steps.Find("1"), std::nullopt);
  EXPECT_EQ(steps.Find(GetParam().values.front() - 0.01), std::nullopt);
  EXPECT_EQ(steps.Find(GetParam().values.back() + 0.01), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(
    Ranges, SteppedRangeTest,
    testing::Values(
        Steps{"Integers",
              R"({"type": "int", "minval": -1, "maxval": 1})",
              {-1, 0, 1}},
        Steps{"IntegersThatDoNotFit",
              R"({"type": "int", "minval": -5, "maxval": 12, "step": 8})",
              {-5, 3, 11}},
        Steps{"Tenths",
              R"({"type": "double", "minval": 0, "maxval": 0.7, "step": 0.1})",
              {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}},
        Steps{"AcrossZero",
              R"({"type": "double", "minval": -0.2, "maxval": 0.1,
                  "step": 0.1})",
              {-0.2, -0.1, 0, 0.1}},
        Steps{"DoNotFit",
              R"({"type": "double", "minval": 0.05, "maxval": 0.99,
                  "step": 0.3})",
              {0.05, 0.35, 0.65, 0.95}},
        Steps{"LargeAndSmall",
              R"({"type": "double", "minval": 1000000, "maxval": 1000000.002,
                  "step": 0.001})",
              {1000000, 1000000.001, 1000000.002}},
        Steps{"NeverAboveMaxval",
              R"({"type": "double", "minval": 0, "maxval": 0.6666666,
                  "step": 0.33333333})",
              {0, 0.33333333}},
        Steps{"Exponents",
              R"({"type": "double", "minval": 1e-5, "maxval": 3e-5,
                  "step": 1e-5})",
              {1e-5, 2e-5, 3e-5}}),
    [](const auto& one) { return one.param.name; });

TEST(SteppedRangeTest, RefusesIntegersBetweenSteps) {
  const SteppedRange steps(json::parse(
      R"({"type": "int", "minval": 16, "maxval": 64, "step": 16})"));

  EXPECT_EQ(steps.Find(48), 2u);
  EXPECT_EQ(steps.Find(49), std::nullopt);
  EXPECT_EQ(steps.Find(80), std::nullopt);
  EXPECT_EQ(steps.Find(48.0), std::nullopt);
}

TEST(LogIntegerTest, HasTheSharesOfItsRoundedLogarithms) {
  const LogInteger range(
      json::parse(R"({"type": "int", "minval": 1, "maxval": 8})"));

  std::vector<int> counts(9);
  for (int i = 0; i < 100000; ++i) ++counts.at(range.At((i + 0.5) / 100000));

  for (int n = 1; n <= 8; ++n) {
    const double share = std::log((n + 0.5) / (n - 0.5)) / std::log(8.5 / 0.5);
    EXPECT_NEAR(counts[n], 100000 * share, 1.01);
    EXPECT_EQ(range.At(range.Place(n)), n);
  }
  EXPECT_EQ(range.At(0), 1);
  EXPECT_EQ(range.At(1), 8);
}

// From scipy.stats.norm.ppf of scipy 1.17.1.
TEST(NormalRangeTest, HasTheQuantilesOfTheNormalDistribution) {
  EXPECT_EQ(LowerNormalQuantile(0.5), 0);
  EXPECT_NEAR(LowerNormalQuantile(0.3), -0.5244005127080409, 1e-15);
  EXPECT_NEAR(LowerNormalQuantile(0.05), -1.6448536269514729, 1e-14);
  EXPECT_NEAR(LowerNormalQuantile(1e-10), -6.361340902404056, 1e-14);
  EXPECT_NEAR(LowerNormalQuantile(1e-15), -7.941345326170997, 1e-13);
  EXPECT_NEAR(LowerNormalQuantile(1e-300), -37.0470962993612, 1e-12);
}

TEST(NormalRangeTest, IsCutOffAtItsBounds) {
  const auto range = [](const char* text) {
    return NormalRange(json::parse(text));
  };
  const NormalRange whole = range(R"({"mean": 3, "std": 2})");
  EXPECT_DOUBLE_EQ(whole.At(0.5), 3);
  EXPECT_NEAR(whole.At(0.9), 3 + 2 * 1.2815515655446004, 1e-14);
  EXPECT_NEAR(whole.Place(whole.At(0.9)), 0.9, 1e-15);
  EXPECT_TRUE(std::isfinite(whole.At(0)) && std::isfinite(whole.At(1)));

  // From scipy.stats.truncnorm.ppf, also far from the mean.
  const NormalRange cut =
      range(R"({"mean": 0, "std": 1, "minval": -1, "maxval": 2})");
  EXPECT_NEAR(cut.At(0.25), -0.3496414292924653, 1e-14);
  EXPECT_GE(cut.At(0), -1);
  EXPECT_LE(cut.At(1), 2);
  const NormalRange tail = range(R"({"mean": 0, "std": 1, "minval": 10})");
  EXPECT_FALSE(tail.empty());
  EXPECT_NEAR(tail.At(0.5), 10.06841183608143, 1e-12);
  EXPECT_GE(tail.At(0), 10);
  const NormalRange low = range(R"({"mean": 0, "std": 1, "maxval": -10})");
  EXPECT_NEAR(low.At(0.5), -10.06841183608143, 1e-12);
  EXPECT_LE(low.At(1), -10);
  EXPECT_TRUE(range(R"({"mean": 0, "std": 1, "minval": 50})").empty());
}

TEST(NormalRangeTest, IsOfLogarithmsWithLog) {
  const NormalRange range(
      json::parse(R"({"mean": -4, "std": 1, "log": true, "maxval": 0.1})"));

  EXPECT_LE(range.At(1), 0.1);
  EXPECT_NEAR(range.Place(range.At(0.3)), 0.3, 1e-14);
  EXPECT_NEAR(NormalRange(json::parse(R"({"mean": -4, "std": 1, "log": true})"))
                  .At(0.5),
              std::exp(-4), 1e-16);
}

// A model sees the same values that random search draws, and a point that it
// decodes is the one that it encodes.
TEST(PointSpaceOfRangesTest, DrawsTheValuesOfASample) {
  const json space = json::parse(R"({
    "a": {"type": "int", "minval": 16, "maxval": 64, "step": 16},
    "b": {"type": "int", "minval": 1, "maxval": 100, "log": true},
    "c": {"type": "double", "minval": 0, "maxval": 1, "step": 0.1},
    "d": {"type": "normal", "mean": 0, "std": 1, "minval": -2}})");
  const PointSpace points(space);
  Rng rng(1), same(1), near(2);

  for (int i = 0; i < 200; ++i) {
    const Point point = points.Draw(rng);
    const json drawn = points.Decode(point);
    const json sample = SampleHparams(space, same);

    EXPECT_EQ(drawn, sample);
    const Point again = points.Encode(drawn);
    const Point neighbour = points.DrawNear(point, 0.1, near);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      EXPECT_EQ(again[axis], point[axis]);
      EXPECT_EQ(points.Encode(points.Decode(neighbour))[axis], neighbour[axis]);
    }
    EXPECT_NEAR(again[3], point[3], 1e-14);
    std::string problem;
    EXPECT_TRUE(PointOfHparams(space, points.Decode(neighbour), problem))
        << problem;
  }
}

struct BadValue {
  const char* range;
  json value;
  const char* says;
};

TEST(PointOfRangesTest, RefusesValuesThatAreNotOfTheRange) {
  const std::vector<BadValue> cases = {
      {R"({"type": "int", "minval": 16, "maxval": 64, "step": 16})", 40,
       "x is between two steps"},
      {R"({"type": "double", "minval": 0, "maxval": 1, "step": 0.1})", 0.25,
       "x is between two steps"},
      {R"({"type": "double", "minval": 0, "maxval": 1, "step": 0.3})", 1.0,
       "x is between two steps"},
      {R"({"type": "int", "minval": 1, "maxval": 64, "log": true})", 65,
       "x is out of range"},
      {R"({"type": "normal", "mean": 0, "std": 1, "maxval": 2})", 3,
       "x is out of range"},
      {R"({"type": "normal", "mean": 0, "std": 1, "log": true})", 0,
       "x is out of range"},
      {R"({"type": "normal", "mean": 0, "std": 1})", "0", "x is not a number"}};
  for (const BadValue& bad : cases) {
    std::string problem;
    EXPECT_FALSE(PointOfHparams({{"x", json::parse(bad.range)}},
                                {{"x", bad.value}}, problem));
    EXPECT_EQ(problem, bad.says);
  }
}

TEST(GridValuesTest, HasEachValueOnce) {
  const auto values = [](const char* range) {
    const json parsed = json::parse(range);
    const std::vector<json> values = GridValues(parsed);
    EXPECT_EQ(CountGridValues(parsed), values.size());
    return json(values);
  };
  EXPECT_EQ(values(R"({"type": "int", "minval": 1, "maxval": 3,
                       "log": true})"),
            json({1, 2, 3}));
  EXPECT_EQ(values(R"({"type": "int", "minval": 1, "maxval": 8, "log": true,
                       "count": 6})"),
            json({1, 2, 3, 5, 8}));
  EXPECT_EQ(values(R"({"type": "int", "minval": 1, "maxval": 64, "log": true,
                       "count": 1})"),
            json({8}));
  EXPECT_EQ(values(R"({"type": "int", "minval": 0, "maxval": 9, "step": 4})"),
            json({0, 4, 8}));
  EXPECT_EQ(values(R"({"type": "double", "minval": 0, "maxval": 0.3,
                       "step": 0.1})"),
            json({0.0, 0.1, 0.2, 0.3}));
  const json quartiles =
      values(R"({"type": "normal", "mean": 1, "std": 1, "count": 2})");
  EXPECT_NEAR(quartiles[0], 1 - 0.6744897501960817, 1e-15);
  EXPECT_NEAR(quartiles[1], 1 + 0.6744897501960817, 1e-15);
}

}  // namespace
}  // namespace dtrain

#include "searchers/hparam_space.h"

#include <cmath>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "searchers/hparam_grid.h"
#include "tests/support/golden.h"

namespace dtrain {
namespace {

using nlohmann::json;

class RecordedSamplesTest : public testing::TestWithParam<int> {};

TEST_P(RecordedSamplesTest, AreReproduced) {
  const json golden = ReadGolden("hparams_0.37.0.json").at(GetParam());
  const json& given = golden.at("case");
  Rng rng(given.at("seed").get<std::uint32_t>());

  for (const json& expected : golden.value("samples", json::array())) {
    const Sample sample = SampleTrial(given.at("hyperparameters"), rng);

    EXPECT_TRUE(Near(sample.hparams, expected.at("hparams")))
        << sample.hparams << " is not " << expected.at("hparams");
    EXPECT_EQ(sample.request_id, expected.at("request_id"));
    EXPECT_EQ(sample.seed, expected.at("trial_seed"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, RecordedSamplesTest, testing::Range(0, 10));

TEST(HparamSpaceTest, KeepsListsAndScalars) {
  const json space = {{"layers", {1, 2, 3}}, {"name", "x"}, {"none", nullptr}};
  Rng rng(1);

  EXPECT_EQ(SampleHparams(space, rng), space);
  EXPECT_TRUE(IsConstant(space));
}

TEST(HparamSpaceTest, SamplesInsideNestedMaps) {
  const json space = json::parse(
      R"({"opt": {"lr": {"type": "double", "minval": 1, "maxval": 2}}})");
  Rng rng(1);

  const json sample = SampleHparams(space, rng);

  EXPECT_GE(sample.at("opt").at("lr"), 1.0);
  EXPECT_LT(sample.at("opt").at("lr"), 2.0);
  EXPECT_FALSE(IsConstant(space));
}

TEST(HparamSpaceTest, DrawsEveryIntFromMinvalToMaxval) {
  const json space =
      json::parse(R"({"n": {"type": "int", "minval": -1, "maxval": 2}})");
  Rng rng(1);
  std::set<std::int64_t> drawn;
  for (int i = 0; i < 100; ++i)
    drawn.insert(SampleHparams(space, rng)["n"].get<std::int64_t>());

  EXPECT_EQ(drawn, (std::set<std::int64_t>{-1, 0, 1, 2}));
}

TEST(HparamSpaceTest, DrawsPowersOfTheBase) {
  const auto sample = [](const json& range) {
    Rng rng(1);
    return SampleHparams({{"x", range}}, rng)["x"].get<double>();
  };

  EXPECT_DOUBLE_EQ(sample({{"type", "log"}, {"minval", 2}, {"maxval", 2}}),
                   100);
  EXPECT_DOUBLE_EQ(
      sample({{"type", "log"}, {"minval", 3}, {"maxval", 3}, {"base", 2}}), 8);
}

TEST(HparamSpaceTest, TakesTheValueOfAConst) {
  Rng rng(1);

  EXPECT_EQ(SampleHparams({{"a", {{"type", "const"}, {"val", 5}}}}, rng),
            json({{"a", 5}}));
}

// The map of all hyperparameters is never a range, even with names like "type".
TEST(HparamSpaceTest, TakesTheKeysOfARangeAsNames) {
  const json space = json::parse(R"({
    "type": "const", "val": 5, "minval": 1, "vals": [1, 2],
    "lr": {"type": "double", "minval": 1, "maxval": 2}})");
  Rng rng(1);

  const json sample = SampleHparams(space, rng);

  EXPECT_EQ(sample.at("type"), "const");
  EXPECT_EQ(sample.at("val"), 5);
  EXPECT_EQ(sample.at("vals"), json({1, 2}));
  EXPECT_TRUE(sample.at("lr").is_number());
  EXPECT_FALSE(IsConstant(space));
  EXPECT_EQ(HparamsOfPoint(space, {{"lr", 1.5}}, rng).at("type"), "const");
}

TEST(HparamSpaceTest, DrawsADoubleInItsLogarithm) {
  const json space = json::parse(
      R"({"lr": {"type": "double", "minval": 1e-4, "maxval": 1, "log": true}})");
  Rng rng(1);

  int below = 0;
  for (int i = 0; i < 1000; ++i) {
    const double lr = SampleHparams(space, rng).at("lr");
    EXPECT_GE(lr, 1e-4);
    EXPECT_LE(lr, 1);
    if (lr < 1e-2) ++below;
  }

  // Half of the logarithm's range, and a hundredth of the values'.
  EXPECT_NEAR(below, 500, 60);
}

class PointOfHparamsTest : public testing::Test {
 protected:
  // Returns the point, or the problem as a string.
  json MakePoint(const json& hparams) const {
    std::string problem;
    const auto point = PointOfHparams(space_, hparams, problem);
    return point ? *point : json(problem);
  }

  const json space_ = json::parse(R"({
    "layers": {"type": "int", "minval": 1, "maxval": 4},
    "momentum": 0.9,
    "optimizer": {
      "lr": {"type": "log", "minval": -3, "maxval": -1, "base": 10},
      "name": {"type": "categorical", "vals": ["adam", "sgd"]}}})");
  const json hparams_ = json::parse(R"({
    "batch": 7, "layers": 4, "momentum": 0.5,
    "optimizer": {"lr": 0.1, "name": "sgd", "decay": 0}})");
};

TEST_F(PointOfHparamsTest, HasTheSearchedValues) {
  EXPECT_EQ(MakePoint(hparams_), json::parse(R"({"layers": 4,
                            "optimizer": {"lr": 0.1, "name": "sgd"}})"));
}

TEST_F(PointOfHparamsTest, AllowsForRoundingOfPowers) {
  json hparams = hparams_;
  hparams["optimizer"]["lr"] = std::pow(10.0, -3) * (1 - 1e-15);

  EXPECT_TRUE(MakePoint(hparams).is_object());
}

TEST_F(PointOfHparamsTest, SaysWhatDoesNotFit) {
  json missing = hparams_;
  missing["optimizer"].erase("lr");
  json flat = hparams_;
  flat["optimizer"] = "sgd";
  json real = hparams_;
  real["layers"] = 2.5;
  json high = hparams_;
  high["optimizer"]["lr"] = 0.2;
  json text = hparams_;
  text["optimizer"]["lr"] = "0.1";
  json other = hparams_;
  other["optimizer"]["name"] = "lion";

  EXPECT_EQ(MakePoint(missing), "optimizer.lr is missing");
  EXPECT_EQ(MakePoint(flat), "optimizer.lr is missing");
  EXPECT_EQ(MakePoint(real), "layers is not an integer");
  EXPECT_EQ(MakePoint(high), "optimizer.lr is out of range");
  EXPECT_EQ(MakePoint(text), "optimizer.lr is not a number");
  EXPECT_EQ(MakePoint(other), "optimizer.name is not in vals");
}

// --- HparamGrid ---

class RecordedGridTest : public testing::TestWithParam<int> {};

TEST_P(RecordedGridTest, ReproducesThePoints) {
  const json golden = ReadGolden("hparams_0.37.0.json").at(GetParam());
  const HparamGrid grid(golden.at("case").at("hyperparameters"));

  json points = json::array();
  for (std::int64_t i = 0; i < grid.size(); ++i) points.push_back(grid.At(i));

  EXPECT_TRUE(Near(points, golden.at("grid"))) << points;
}

// The other cases have no recorded grid.
INSTANTIATE_TEST_SUITE_P(All, RecordedGridTest,
                         testing::Values(2, 3, 4, 5, 6, 7, 9));

TEST(HparamGridTest, HasOnePointWithoutSearchedHyperparameters) {
  const HparamGrid grid(json::object());

  EXPECT_EQ(grid.size(), 1);
  EXPECT_EQ(grid.At(0), json::object());
}

TEST(HparamGridTest, ClampsTheCountOfAnInt) {
  const json values =
      GridValues({{"type", "int"}, {"minval", 2}, {"maxval", 4}, {"count", 9}});

  EXPECT_EQ(values, json({2, 3, 4}));
}

TEST(HparamGridTest, TakesEveryIntWithoutACount) {
  const json values =
      GridValues({{"type", "int"}, {"minval", -1}, {"maxval", 1}});

  EXPECT_EQ(values, json({-1, 0, 1}));
}

TEST(HparamGridTest, RoundsHalfAwayFromZero) {
  const json values = GridValues(
      {{"type", "int"}, {"minval", -4}, {"maxval", -1}, {"count", 1}});

  EXPECT_EQ(values, json({-3}));
}

TEST(HparamGridTest, SpreadsADoubleInItsLogarithm) {
  json range = {{"type", "double"},
                {"minval", 1e-4},
                {"maxval", 1},
                {"log", true},
                {"count", 5}};

  const json values = GridValues(range);
  range["count"] = 1;

  EXPECT_EQ(values.at(0), 1e-4);
  EXPECT_DOUBLE_EQ(values.at(1).get<double>(), 1e-3);
  EXPECT_DOUBLE_EQ(values.at(3).get<double>(), 0.1);
  EXPECT_EQ(values.at(4), 1);
  EXPECT_DOUBLE_EQ(GridValues(range).at(0).get<double>(), 1e-2);
}

TEST(HparamGridTest, TakesTheKeysOfARangeAsNames) {
  const HparamGrid grid(json::parse(
      R"({"type": "x", "a": {"type": "categorical", "vals": [1, 2]}})"));

  ASSERT_EQ(grid.size(), 2);
  EXPECT_EQ(grid.At(1), json({{"type", "x"}, {"a", 2}}));
}

TEST(HparamGridTest, TakesTheMiddleOfALogInTheExponent) {
  const json values = GridValues(
      {{"type", "log"}, {"minval", -4}, {"maxval", -2}, {"count", 1}});

  EXPECT_DOUBLE_EQ(values.at(0).get<double>(), 1e-3);
}

TEST(HparamGridTest, NestedAxesComeInByteOrderDepthFirst) {
  const HparamGrid grid(json::parse(R"({
    "b": {"type": "categorical", "vals": [1, 2]},
    "a": {"z": {"type": "categorical", "vals": ["x", "y"]}, "k": 5}})"));

  ASSERT_EQ(grid.size(), 4);
  EXPECT_EQ(grid.At(0), json::parse(R"({"a": {"k": 5, "z": "x"}, "b": 1})"));
  EXPECT_EQ(grid.At(1), json::parse(R"({"a": {"k": 5, "z": "x"}, "b": 2})"));
  EXPECT_EQ(grid.At(2), json::parse(R"({"a": {"k": 5, "z": "y"}, "b": 1})"));
}

TEST(AlternativesTest, AreTheChoicesAndTheAxesOfAGrid) {
  const json space = json::parse(R"({
    "a": {"type": "categorical", "vals": [true, null]}, "k": 5,
    "one": {"type": "categorical", "vals": [1]},
    "flag": {"type": "int", "minval": 0, "maxval": 1},
    "model": {"layers": {"type": "int", "minval": 1, "maxval": 3},
              "lr": {"type": "double", "minval": 0, "maxval": 1, "count": 2}},
    "seed": {"type": "int", "minval": 0, "maxval": 9223372036854775807}})");

  json expected = json::parse(R"({"a": [true, null], "flag": [0, 1]})");
  EXPECT_EQ(Alternatives(space, /*is_grid=*/false), expected);
  expected["model.layers"] = {1, 2, 3};
  expected["model.lr"] = {0.0, 1.0};
  EXPECT_EQ(Alternatives(space, /*is_grid=*/true), expected);
}

}  // namespace
}  // namespace dtrain

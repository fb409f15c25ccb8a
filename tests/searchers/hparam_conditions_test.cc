#include "searchers/hparam_conditions.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "searchers/hparam_grid.h"
#include "searchers/hparam_space.h"
#include "searchers/point_space.h"

namespace dtrain {
namespace {

using nlohmann::json;

TEST(HoldsTest, ComparesEachNamedHyperparameter) {
  const json hparams = json::parse(R"({
    "optimizer": "sgd", "model": {"layers": 3}, "deep": true, "x": 1.0})");
  const auto holds = [&](const char* when) {
    return Holds(json::parse(when), hparams);
  };

  EXPECT_TRUE(holds(R"({"optimizer": ["adam", "sgd"]})"));
  EXPECT_FALSE(holds(R"({"optimizer": ["adam"]})"));
  EXPECT_TRUE(holds(R"({"model.layers": {"minval": 3}})"));
  EXPECT_FALSE(holds(R"({"model.layers": {"minval": 4}})"));
  EXPECT_TRUE(holds(R"({"model.layers": {"minval": 1, "maxval": 3}})"));
  EXPECT_FALSE(holds(R"({"model.layers": {"maxval": 2}})"));
  EXPECT_FALSE(holds(R"({"optimizer": {"minval": 0}})"));
  EXPECT_TRUE(holds(R"({"x": [1]})"));
  EXPECT_FALSE(holds(R"({"deep": [1]})"));
  // What is absent has no value.
  EXPECT_FALSE(holds(R"({"momentum": [0, null]})"));
  EXPECT_FALSE(holds(R"({"optimizer": ["sgd"], "deep": [false]})"));
  EXPECT_TRUE(holds(R"([{"optimizer": ["sgd"]}, {"deep": [true]}])"));
  EXPECT_FALSE(holds(R"([{"optimizer": ["sgd"]}, {"deep": [false]}])"));
}

// "a" depends on "z", which depends on "m"; the order of names is another one.
const json kChain = json::parse(R"({
  "a": {"type": "const", "val": 1, "when": {"z": {"minval": 2}}},
  "m": {"type": "categorical", "vals": ["on", "off"]},
  "net": {"depth": {"type": "int", "minval": 1, "maxval": 9,
                    "when": {"m": ["on"]}}},
  "other": {"type": "double", "minval": 0, "maxval": 1,
            "when": {"m": ["on"]}, "else": -1},
  "z": {"type": "int", "minval": 1, "maxval": 3, "when": {"m": ["on"]}}})");

TEST(HparamConditionsTest, LeaveOutWhatIsAbsentWithAllThatDependsOnIt) {
  const HparamConditions conditions(kChain);
  const auto apply = [&](json hparams) {
    conditions.Apply(hparams);
    return hparams;
  };

  EXPECT_EQ(apply({{"a", 1},
                   {"m", "off"},
                   {"net", {{"depth", 3}}},
                   {"other", 0.5},
                   {"z", 3}}),
            json({{"m", "off"}, {"other", -1}}));
  EXPECT_EQ(
      apply({{"a", 1},
             {"m", "on"},
             {"net", {{"depth", 3}}},
             {"other", 0.5},
             {"z", 1}}),
      json({{"m", "on"}, {"net", {{"depth", 3}}}, {"other", 0.5}, {"z", 1}}));
  EXPECT_TRUE(HparamConditions(json{{"x", 1}}).empty());
  EXPECT_EQ(conditions.Deciding(), (std::set<std::string>{"m", "z"}));
}

TEST(HparamConditionsTest, DependOnValuesOfElse) {
  const json space = json::parse(R"({
    "a": {"type": "const", "val": 1, "when": {"b": [7]}},
    "b": {"type": "int", "minval": 1, "maxval": 3, "when": {"c": [true]},
          "else": 7},
    "c": {"type": "categorical", "vals": [true, false]}})");
  json hparams = {{"a", 1}, {"b", 2}, {"c", false}};

  HparamConditions(space).Apply(hparams);

  EXPECT_EQ(hparams, json({{"a", 1}, {"b", 7}, {"c", false}}));
}

TEST(HparamConditionsTest, AddTheValueOfElseToTheChoices) {
  const json space = json::parse(R"({
    "a": {"type": "categorical", "vals": [true, false], "when": {"b": [1]},
          "else": "no"},
    "b": {"type": "categorical", "vals": [1, 2]},
    "c": {"type": "int", "minval": 1, "maxval": 2, "when": {"b": [1]},
          "else": 7}})");

  EXPECT_EQ(HparamChoices(space, "a"), json({true, false, "no"}));
  EXPECT_EQ(HparamChoices(space, "b"), json({1, 2}));
  EXPECT_EQ(HparamChoices(space, "c"), json());
}

// A condition leaves out values, and changes no other one.
TEST(HparamConditionsTest, ChangeNoOtherSample) {
  json without = kChain;
  for (const char* name : {"a", "other", "z"}) {
    without[name].erase("when");
    without[name].erase("else");
  }
  without["net"]["depth"].erase("when");
  Rng rng(3), same(3);
  int absent = 0;
  for (int i = 0; i < 200; ++i) {
    const Sample conditional = SampleTrial(kChain, rng);
    const Sample plain = SampleTrial(without, same);

    EXPECT_EQ(conditional.request_id, plain.request_id);
    absent += conditional.hparams.contains("z") ? 0 : 1;
    for (const auto& [name, value] : conditional.hparams.items()) {
      if (name != "other" || value != -1) {
        EXPECT_EQ(value, plain.hparams.at(name)) << name;
      }
    }
    EXPECT_EQ(conditional.hparams.contains("z"), plain.hparams["m"] == "on");
    EXPECT_EQ(conditional.hparams.contains("net"), plain.hparams["m"] == "on");
    EXPECT_EQ(conditional.hparams.contains("a"),
              plain.hparams["m"] == "on" && plain.hparams["z"] >= 2);
  }
  EXPECT_NEAR(absent, 100, 30);
}

TEST(HparamConditionsTest, GiveAGridEachExistingPointOnce) {
  json space = kChain;
  space["net"]["depth"]["count"] = 2;
  space["other"]["count"] = 3;
  const HparamGrid grid(space);
  std::vector<json> points;
  for (std::int64_t i = 0; i < grid.size(); ++i) points.push_back(grid.At(i));

  // on: 2 depths · 3 values of other · 3 of z; off: one.
  EXPECT_EQ(grid.size(), 19);
  EXPECT_EQ(std::set<json>(points.begin(), points.end()).size(), 19u);
  EXPECT_EQ(points.back(), json({{"m", "off"}, {"other", -1}}));
  // In the order of the axes, of which the last is the fastest.
  EXPECT_EQ(
      points[0],
      json({{"m", "on"}, {"net", {{"depth", 1}}}, {"other", 0.0}, {"z", 1}}));
  EXPECT_EQ(points[1].at("z"), 2);
  EXPECT_EQ(points[1].at("a"), 1);
  EXPECT_EQ(points[3].at("other"), 0.5);
  EXPECT_EQ(points[9].at("net").at("depth"), 9);
  EXPECT_EQ(HparamGrid(space, 10).size(), 11);
}

TEST(HparamConditionsTest, MakeAGridSmallWhoseAxesAreManyPoints) {
  json space = {{"kind", {{"type", "int"}, {"minval", 0}, {"maxval", 39}}}};
  for (int i = 0; i < 40; ++i) {
    space["x" + std::to_string(i)] = {{"type", "int"},
                                      {"minval", 1},
                                      {"maxval", 10},
                                      {"when", {{"kind", json::array({i})}}}};
  }

  EXPECT_EQ(HparamGrid(space).size(), 400);
}

// Points that differ only in what is absent are one.
TEST(HparamConditionsTest, GiveAnAbsentCoordinateOneValue) {
  const PointSpace space(kChain);
  ASSERT_EQ(space.dimensions(), 4u);
  Rng rng(5);
  std::set<Point> off;
  std::set<Point> on;
  Point point = space.Draw(rng);
  for (int i = 0; i < 300; ++i) {
    const json hparams = space.Decode(point);
    (hparams.at("m") == "off" ? off : on).insert(point);
    EXPECT_EQ(hparams.contains("z"), hparams.at("m") == "on");
    const Point again = space.Encode(hparams);
    for (std::size_t axis = 0; axis < 4; ++axis) {
      EXPECT_NEAR(again[axis], point[axis], 1e-14);
    }
    point = space.DrawNear(point, 0.2, rng);
  }

  EXPECT_EQ(off.size(), 1u);
  EXPECT_GT(on.size(), 50u);
  // A coordinate that becomes present is drawn, not left where it was.
  std::set<double> z;
  for (const Point& one : on) z.insert(one[3]);
  EXPECT_EQ(z.size(), 3u);
}

TEST(HparamConditionsTest, LetAPointLackWhatIsAbsent) {
  std::string problem;
  EXPECT_EQ(PointOfHparams(kChain, {{"m", "off"}, {"other", -1}}, problem),
            json({{"m", "off"}, {"net", json::object()}}));
  EXPECT_FALSE(
      PointOfHparams(kChain, {{"m", "on"}, {"other", 0.5}, {"z", 1}}, problem));
  EXPECT_EQ(problem, "net.depth is missing");
  Rng rng(1);
  EXPECT_EQ(HparamsOfPoint(kChain, {{"m", "off"}, {"z", 2}}, rng),
            json({{"m", "off"}, {"other", -1}}));
}

}  // namespace
}  // namespace dtrain

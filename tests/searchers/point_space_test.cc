#include "searchers/point_space.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "searchers/hparam_space.h"

namespace dtrain {
namespace {

using nlohmann::json;

class PointSpaceTest : public testing::Test {
 protected:
  PointSpace space_{json::parse(R"({
    "act": {"type": "categorical", "vals": ["relu", "tanh", "elu"]},
    "batch": {"type": "int", "minval": 1, "maxval": 4},
    "lr": {"type": "log", "minval": -4, "maxval": -2, "base": 10},
    "net": {"alpha": {"type": "double", "minval": -1, "maxval": 3},
            "depth": {"type": "const", "val": 5},
            "norm": {"type": "categorical", "vals": ["batch"]}},
    "wide": true})")};
  Rng rng_{7};
};

TEST_F(PointSpaceTest, HasACoordinateForEachSearchedHyperparameter) {
  EXPECT_EQ(space_.dimensions(), 4u);
  EXPECT_EQ(space_.Categorical(),
            (std::vector<bool>{true, false, false, false}));
}

TEST_F(PointSpaceTest, DecodesAPointWithTheConstants) {
  const json hparams = space_.Decode({2, 0.375, 0.5, 0.25});

  EXPECT_NEAR(hparams.at("lr").get<double>(), 1e-3, 1e-17);
  json others = hparams;
  others.erase("lr");
  EXPECT_EQ(others, json::parse(R"({
    "act": "elu", "batch": 2,
    "net": {"alpha": 0, "depth": 5, "norm": "batch"}, "wide": true})"));
}

TEST_F(PointSpaceTest, EncodesWhatItDecoded) {
  const Point point = {1, 0.625, 0.5, 0.75};

  const Point again = space_.Encode(space_.Decode(point));

  ASSERT_EQ(again.size(), 4u);
  EXPECT_EQ(again[0], 1);
  EXPECT_EQ(again[1], 0.625);
  EXPECT_NEAR(again[2], 0.5, 1e-15);
  EXPECT_EQ(again[3], 0.75);
}

TEST_F(PointSpaceTest, KeepsTheBoundsOfTheRanges) {
  const json low = space_.Decode({0, 0, 0, 0});
  const json high = space_.Decode({0, 1, 1, 1});

  EXPECT_EQ(low.at("batch"), 1);
  EXPECT_EQ(high.at("batch"), 4);
  EXPECT_EQ(low.at("net").at("alpha"), -1);
  EXPECT_EQ(high.at("net").at("alpha"), 3);
  EXPECT_NEAR(low.at("lr").get<double>(), 1e-4, 1e-18);
  EXPECT_NEAR(high.at("lr").get<double>(), 1e-2, 1e-16);
}

// A row: the values, the key `ordered` or "", and whether they are ordered.
TEST_F(PointSpaceTest, OrdersListsOfNumbers) {
  struct Row {
    std::string values;
    std::string ordered;
    bool is_ordered;
  };
  for (const auto& [values, ordered, is_ordered] :
       {Row{"[1, 2, 4]", "", true}, Row{"[0.9, 0.5, -1]", "", true},
        Row{"[1, 2, 4]", "false", false}, Row{"[1, 2]", "", false},
        Row{"[1, 4, 2]", "", false}, Row{"[1, 2, 2]", "", false},
        Row{"[1, 2, \"4\"]", "", false}, Row{"[false, true, 2]", "", false},
        Row{"[1, 2, null]", "", false},
        Row{"[\"small\", \"large\"]", "true", true},
        Row{"[\"a\", \"b\", \"c\"]", "", false}}) {
    json range = {{"type", "categorical"}, {"vals", json::parse(values)}};
    if (!ordered.empty()) range["ordered"] = json::parse(ordered);
    const PointSpace space(json{{"x", range}});

    EXPECT_EQ(space.Categorical(), std::vector<bool>{!is_ordered}) << values;
    EXPECT_EQ(PointSpace(json{{"x", range}}, false).Categorical(),
              std::vector<bool>{true});
    const Point second_value = space.Encode({{"x", range["vals"].at(1)}});
    EXPECT_EQ(space.Decode(second_value).at("x"), range["vals"].at(1));
    const auto count = static_cast<double>(range["vals"].size());
    EXPECT_DOUBLE_EQ(second_value.at(0), is_ordered ? 1.5 / count : 1);
    // The draws are those of SampleHparams.
    Rng first(3);
    Rng second(3);
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(space.Decode(space.Draw(first)),
                SampleHparams({{"x", range}}, second));
    }
  }
}

TEST_F(PointSpaceTest, ChangesAtLeastOneCoordinateOfANeighbour) {
  const Point point = {1, 0.625, 0.5, 0.75};
  int same = 0;
  int inside = 0;
  for (int i = 0; i < 200; ++i) {
    const Point near = space_.DrawNear(point, 0.2, rng_);
    const json hparams = space_.Decode(near);
    inside += space_.Encode(hparams).at(1) == near.at(1) && near.at(2) >= 0 &&
              near.at(2) <= 1 && near.at(3) >= 0 && near.at(3) <= 1;
    same += near == point;
  }

  EXPECT_EQ(inside, 200);
  // A step of an int may stay in its cell, and a value may be drawn again.
  EXPECT_LT(same, 60);
}

}  // namespace
}  // namespace dtrain

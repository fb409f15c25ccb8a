#include "engine/base/json_number.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(JsonNumberTest, FiniteNumbersAreNumbers) {
  EXPECT_EQ(JsonNumber(0.1).dump(), "0.1");
  EXPECT_EQ(NumberFromJson(JsonNumber(-1e300)), -1e300);
  EXPECT_EQ(NumberFromJson(3), 3);
}

TEST(JsonNumberTest, TheRestAreStrings) {
  EXPECT_EQ(JsonNumber(std::nan("")), "NaN");
  EXPECT_EQ(JsonNumber(kInfinity), "Infinity");
  EXPECT_EQ(JsonNumber(-kInfinity), "-Infinity");
  EXPECT_TRUE(std::isnan(NumberFromJson("NaN")));
  EXPECT_EQ(NumberFromJson("Infinity"), kInfinity);
  EXPECT_EQ(NumberFromJson("-Infinity"), -kInfinity);
}

TEST(JsonNumberTest, OtherValuesAreRefused) {
  EXPECT_THROW(NumberFromJson("1"), Error);
  EXPECT_THROW(NumberFromJson(nullptr), Error);
  EXPECT_THROW(NumberFromJson(true), Error);
}

}  // namespace
}  // namespace dtrain

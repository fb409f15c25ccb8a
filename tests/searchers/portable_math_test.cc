#include "searchers/portable_math.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

class PortableMathTest : public testing::TestWithParam<double> {};

TEST_P(PortableMathTest, ExpIsThatOfTheCLibrary) {
  const double expected = std::exp(GetParam());

  EXPECT_NEAR(PortableExp(GetParam()) / expected, 1, 1e-15);
}

TEST_P(PortableMathTest, LogIsThatOfTheCLibrary) {
  const double x = std::exp(GetParam());
  const double expected = std::log(x);

  EXPECT_NEAR(PortableLog(x), expected, 1e-15 * std::abs(expected) + 1e-16);
}

TEST_P(PortableMathTest, NormalProbabilityIsExactInTheTails) {
  const double x = GetParam() / 20;
  const double expected = 0.5 * std::erfc(-x / std::sqrt(2.0));

  EXPECT_NEAR(NormalProbability(x) / expected, 1, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Values, PortableMathTest,
                         testing::Values(-700, -123.456, -37.5, -13, -2, -0.7,
                                         -1e-9, 0, 1e-3, 0.5, 1, 9.9, 88, 120,
                                         703.2));

TEST(PortableExpTest, HasBounds) {
  const double infinity = std::numeric_limits<double>::infinity();

  EXPECT_EQ(PortableExp(-infinity), PortableExp(-708));
  EXPECT_EQ(PortableExp(infinity), PortableExp(709));
}

TEST(PortablePowerTest, IsExactForSmallIntegers) {
  EXPECT_EQ(PortablePower(3, 0), 1);
  EXPECT_EQ(PortablePower(3, 20), 3486784401);
  EXPECT_EQ(PortablePower(2.5, 4), 39.0625);
}

// The C library rounds nearly all powers correctly.
TEST(PortablePowerTest, RoundsOnce) {
  int equal = 0;
  for (int i = 1; i <= 1000; ++i) {
    const double base = 1 + i * 0.0073;
    equal += PortablePower(base, 2 + i % 30) == std::pow(base, 2 + i % 30);
  }

  EXPECT_GE(equal, 990);
}

TEST(PortablePowerTest, GrowsBeyondAnyLength) {
  EXPECT_GT(PortablePower(1e6, 63), 1e250);
  EXPECT_GT(PortablePower(1e300, 5), 1e250);
}

}  // namespace
}  // namespace dtrain

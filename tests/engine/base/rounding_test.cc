#include "engine/base/rounding.h"

#include <cmath>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(FormatRoundedTest, RoundsToSignificantDigits) {
  EXPECT_EQ(FormatRounded(0.123456789, 6), "0.123457");
  EXPECT_EQ(FormatRounded(1234.56789, 6), "1234.57");
  EXPECT_EQ(FormatRounded(-0.000012345678, 4), "-1.235e-05");
  EXPECT_EQ(FormatRounded(1.5, 4), "1.5");
}

TEST(FormatRoundedTest, MakesNoIntegerOfAnotherNumber) {
  EXPECT_EQ(FormatRounded(0.99999951, 6), "0.9999995");
  EXPECT_EQ(FormatRounded(-0.99999951, 6), "-0.9999995");
  EXPECT_EQ(FormatRounded(0.99999, 4), "0.99999");
  EXPECT_EQ(FormatRounded(1.0000004, 6), "1.0000004");
  EXPECT_EQ(FormatRounded(99.99999999, 6), "99.99999999");
  EXPECT_EQ(FormatRounded(1234567.8, 6), "1234567.8");
  EXPECT_EQ(FormatRounded(std::nextafter(1.0, 0.0), 6), "0.9999999999999999");
  EXPECT_EQ(FormatRounded(5e-324, 6), "4.94066e-324");
}

TEST(FormatRoundedTest, PrintsIntegersInFull) {
  EXPECT_EQ(FormatRounded(0, 6), "0");
  EXPECT_EQ(FormatRounded(1, 6), "1");
  EXPECT_EQ(FormatRounded(5000000, 6), "5000000");
  EXPECT_EQ(FormatRounded(-1234567, 4), "-1234567");
  EXPECT_EQ(FormatRounded(9007199254740992, 6), "9007199254740992");
}

TEST(FormatRoundedTest, RoundsBeyondTheExactIntegers) {
  EXPECT_EQ(FormatRounded(1.23456789e20, 6), "1.23457e+20");
  EXPECT_EQ(FormatRounded(1e300, 6), "1e+300");
  EXPECT_EQ(FormatRounded(HUGE_VAL, 6), "Infinity");
  EXPECT_EQ(FormatRounded(std::nan(""), 6), "NaN");
}

TEST(DropNoiseTest, RemovesTheLastDigitsOfAComputedValue) {
  EXPECT_EQ(DropNoise(3.3 - 2.3), 1);
  EXPECT_EQ(DropNoise(std::pow(10, std::log10(2))), 2);
  EXPECT_EQ(DropNoise(0.99999951), 0.99999951);
  EXPECT_EQ(DropNoise(-1e-300), -1e-300);
  EXPECT_TRUE(std::isnan(DropNoise(std::nan(""))));
}

}  // namespace
}  // namespace dtrain

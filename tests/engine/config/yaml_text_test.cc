#include "engine/config/yaml_text.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(YamlTextTest, CountsLinesAndBytes) {
  const Mark mark = MarkAt("ab\ncd\nef", 7);

  EXPECT_EQ(mark.line, 3);
  EXPECT_EQ(mark.column, 2);
}

TEST(YamlTextTest, TakesTextInAnyScript) {
  Findings findings("f", {});

  EXPECT_TRUE(CheckText("name: Prüfung 試験\t\r\n", {}, findings));
  EXPECT_EQ(findings.errors(), 0);
}

TEST(YamlTextTest, FindsUnclosedQuotes) {
  EXPECT_TRUE(IsUnclosedQuote("a: \"x", 3));
  EXPECT_TRUE(IsUnclosedQuote("a: \"x\\\"", 3));
  EXPECT_TRUE(IsUnclosedQuote("a: 'x''", 3));
  EXPECT_TRUE(IsUnclosedQuote("a: !!str 'x", 3));
}

TEST(YamlTextTest, FindsClosedQuotes) {
  EXPECT_FALSE(IsUnclosedQuote("a: \"x\\\"\"", 3));
  EXPECT_FALSE(IsUnclosedQuote("a: 'it''s'", 3));
  EXPECT_FALSE(IsUnclosedQuote("a: | \"x", 3));
  EXPECT_FALSE(IsUnclosedQuote("a: !!str x'", 3));
}

struct Integer {
  const char* text;
  std::int64_t value;
};

class IntegerScalarTest : public testing::TestWithParam<Integer> {};

TEST_P(IntegerScalarTest, IsAnInteger) {
  const Node node = PlainScalar(GetParam().text);

  EXPECT_EQ(node.kind, Node::Kind::kInt);
  EXPECT_EQ(node.integer, GetParam().value);
  EXPECT_EQ(node.text, GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    Core, IntegerScalarTest,
    testing::Values(Integer{"0", 0}, Integer{"010", 10}, Integer{"+5", 5},
                    Integer{"-5", -5}, Integer{"0x10", 16},
                    Integer{"0xfF", 255}, Integer{"0o17", 15},
                    Integer{"60_000", 60'000}, Integer{"1_0_0", 100},
                    Integer{"9223372036854775807", INT64_MAX},
                    Integer{"-9223372036854775808", INT64_MIN}));

struct Number {
  const char* text;
  double value;
};

class NumberScalarTest : public testing::TestWithParam<Number> {};

TEST_P(NumberScalarTest, IsANumber) {
  const Node node = PlainScalar(GetParam().text);

  EXPECT_EQ(node.kind, Node::Kind::kDouble);
  EXPECT_EQ(node.number, GetParam().value);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

INSTANTIATE_TEST_SUITE_P(
    Core, NumberScalarTest,
    testing::Values(Number{"1e-4", 1e-4}, Number{"1e3", 1000},
                    Number{"1E+3", 1000}, Number{"0.1", 0.1}, Number{".5", 0.5},
                    Number{"5.", 5}, Number{"-1.5e2", -150},
                    Number{"1_000.5", 1000.5}, Number{"+.5", 0.5},
                    Number{".inf", kInfinity}, Number{"-.INF", -kInfinity},
                    Number{"+.Inf", kInfinity}, Number{"1e-999", 0}));

class StringScalarTest : public testing::TestWithParam<const char*> {};

TEST_P(StringScalarTest, IsAString) {
  const Node node = PlainScalar(GetParam());

  EXPECT_EQ(node.kind, Node::Kind::kString);
  EXPECT_EQ(node.text, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Core, StringScalarTest,
    testing::Values("yes", "no", "on", "off", "Yes", "y", "0b1", "0x", "0xg",
                    "0o8", "-0x10", "1_", "_1", "1__0", "1e", "1e+", ".", "-",
                    "+", "1.2.3", "1:30", "inf", "nan", ".Nan", "-.nan", "tRue",
                    "nULL", "12abc", "0x1_0", "e5", ".e5", "2024-01-01"));

struct Word {
  const char* text;
  Node::Kind kind;
};

class WordScalarTest : public testing::TestWithParam<Word> {};

TEST_P(WordScalarTest, HasItsKind) {
  EXPECT_EQ(PlainScalar(GetParam().text).kind, GetParam().kind);
}

INSTANTIATE_TEST_SUITE_P(
    Core, WordScalarTest,
    testing::Values(Word{"", Node::Kind::kNull}, Word{"~", Node::Kind::kNull},
                    Word{"null", Node::Kind::kNull},
                    Word{"NULL", Node::Kind::kNull},
                    Word{"True", Node::Kind::kBool},
                    Word{"false", Node::Kind::kBool},
                    Word{"9223372036854775808", Node::Kind::kOverflow},
                    Word{"-9223372036854775809", Node::Kind::kOverflow},
                    Word{"0xFFFFFFFFFFFFFFFFF", Node::Kind::kOverflow},
                    Word{"1e999", Node::Kind::kOverflow}));

TEST(YamlScalarTest, ReadsTruth) {
  EXPECT_TRUE(PlainScalar("True").boolean);
  EXPECT_FALSE(PlainScalar("FALSE").boolean);
}

TEST(YamlScalarTest, ReadsNan) {
  EXPECT_TRUE(std::isnan(PlainScalar(".nan").number));
  EXPECT_FALSE(PlainScalar(".nan").IsNumber());
}

TEST(YamlScalarTest, QuotedIsAlwaysAString) {
  EXPECT_EQ(QuotedScalar("5").kind, Node::Kind::kString);
  EXPECT_EQ(QuotedScalar("").kind, Node::Kind::kString);
}

}  // namespace

}  // namespace dtrain

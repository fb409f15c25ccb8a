#include "engine/query/line_regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

TEST(LineRegexTest, FindsAnExpressionBehindANulByte) {
  const LineRegex regex("epoch [0-9]+$");
  EXPECT_TRUE(regex.Matches(std::string_view("\0 epoch 12", 10)));
  EXPECT_FALSE(regex.Matches("epoch 12 "));
}

TEST(LineRegexTest, SurvivesALongLine) {
  EXPECT_TRUE(LineRegex("(a|b)*c").Matches(std::string(65536, 'a') + "c"));
}

// The library that is asked must not try one way after the other.
TEST(LineRegexTest, TakesTimeInProportionToTheLine) {
  const std::string line(65536, 'a');
  EXPECT_FALSE(LineRegex("(a|aa)+$b").Matches(line));
  EXPECT_FALSE(LineRegex("(a*)*(a*)*(a*)*b").Matches(line));
  EXPECT_FALSE(LineRegex("(x+x+)+y").Matches(std::string(65536, 'x')));
}

TEST(LineRegexTest, SupportsUtf8CharactersAndClasses) {
  EXPECT_TRUE(LineRegex("^gr.n$").Matches("gr\u00fcn"));
  EXPECT_TRUE(LineRegex("(?i)^GR[\u00fc]N$").Matches("gr\u00dcn"));
  EXPECT_FALSE(LineRegex("GRUN").Matches("grun"));
  EXPECT_TRUE(LineRegex("[[:digit:]]+ \\d+\\b").Matches("1 2"));
}

TEST(LineRegexTest, SearchesLinesOfInvalidUtf8) {
  EXPECT_TRUE(
      LineRegex("^a.b$").Matches("a\xff"
                                 "b"));
  EXPECT_TRUE(LineRegex("b").Matches("\xff\xfe b"));
}

std::string Refusal(const std::string& pattern) {
  try {
    const LineRegex regex(pattern);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(LineRegexTest, RefusesInvalidExpressions) {
  EXPECT_THAT(Refusal("(unclosed"), HasSubstr("missing ): (unclosed"));
  EXPECT_THAT(Refusal("(a)\\1"), HasSubstr("invalid escape sequence: \\1"));
  EXPECT_THAT(Refusal("\xff"), HasSubstr("invalid UTF-8"));
}

TEST(LineRegexTest, RefusesTooLongExpressions) {
  EXPECT_EQ(Refusal(std::string(1000, 'a')), "");
  EXPECT_EQ(Refusal(std::string(1001, 'a')),
            "--grep: the expression has 1001 bytes; the maximum is 1000");
  EXPECT_THAT(Refusal("((a{100}){100}){100}"), HasSubstr("; use RE2 syntax"));
}

}  // namespace
}  // namespace dtrain

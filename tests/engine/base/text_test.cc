#include "engine/base/text.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(EscapeForTerminalTest, MakesControlsVisible) {
  EXPECT_EQ(EscapeForTerminal("plain é 日本"), "plain é 日本");
  EXPECT_EQ(EscapeForTerminal("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(EscapeForTerminal("a\nb\r\tc\x7f"), "a\\x0ab\\x0d c\\x7f");
  EXPECT_EQ(EscapeForTerminal(std::string_view("\0", 1)), "\\x00");
}

TEST(EscapeForTerminalTest, CatchesC1AndBidirectionalControls) {
  EXPECT_EQ(EscapeForTerminal("\xc2\x9b"
                              "31m"),
            "\\x9b31m");
  EXPECT_EQ(EscapeForTerminal("\xe2\x80\xae"), "\\u202e");
  EXPECT_EQ(EscapeForTerminal("\xe2\x81\xa6"), "\\u2066");
  EXPECT_EQ(EscapeForTerminal("\xe2\x80\xa8"), "\\u2028");
}

TEST(EscapeForTerminalTest, CatchesInvalidUtf8) {
  EXPECT_EQ(EscapeForTerminal("a\xff"
                              "b"),
            "a\\xffb");
  EXPECT_EQ(EscapeForTerminal("\x9b"), "\\x9b");
  EXPECT_EQ(EscapeForTerminal("\xe2\x82"), "\\xe2\\x82");
}

TEST(EscapeForTerminalTest, LeavesJsonTheSameDocument) {
  EXPECT_EQ(EscapeJsonForTerminal("{\n\t\"a\": \"\xE2\x80\xAE\x7f\xC3\xBC\"}"),
            "{\n\t\"a\": \"\\u202e\\u007f\xC3\xBC\"}");
  EXPECT_EQ(EscapeJsonForTerminal("\"\xC2\x9b\r\""), "\"\\u009b\\u000d\"");
}

TEST(QuoteForShellTest, QuotesSpecialCharacters) {
  EXPECT_EQ(QuoteForShell("/var/lib/a-b_c.d"), "/var/lib/a-b_c.d");
  EXPECT_EQ(QuoteForShell(""), "''");
  EXPECT_EQ(QuoteForShell("a b"), "'a b'");
  EXPECT_EQ(QuoteForShell("it's"), "'it'\\''s'");
  EXPECT_EQ(QuoteForShell("$(id)"), "'$(id)'");
  EXPECT_EQ(QuoteForShell("~"), "'~'");
  EXPECT_EQ(QuoteForShell("=ls"), "'=ls'");
  EXPECT_EQ(QuoteForShell("{a,b}"), "'{a,b}'");
  EXPECT_EQ(QuoteForShell("\xC3\xBC"), "'\xC3\xBC'");
}

TEST(QuoteForShellTest, PathsNeverLookLikeOptions) {
  EXPECT_EQ(QuotePathForShell("-rf"), "./-rf");
  EXPECT_EQ(QuotePathForShell("-r f"), "'./-r f'");
  EXPECT_EQ(QuotePathForShell("a/-rf"), "a/-rf");
}

TEST(QuoteForShellTest, NamesCommandsThatHaveQuotes) {
  EXPECT_EQ(NamedCommand("dtrain list"), "'dtrain list'");
  EXPECT_EQ(NamedCommand("dtrain --store 'a b' list"),
            "`dtrain --store 'a b' list`");
}

TEST(Utf8Test, ValidatesUtf8) {
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_TRUE(IsValidUtf8("é日\xf0\x9f\x98\x80"));
  EXPECT_FALSE(IsValidUtf8("\x80"));
  EXPECT_FALSE(IsValidUtf8("\xc0\xaf"));          // overlong
  EXPECT_FALSE(IsValidUtf8("\xe0\x80\xaf"));      // overlong
  EXPECT_FALSE(IsValidUtf8("\xf0\x80\x80\xaf"));  // overlong
  EXPECT_FALSE(IsValidUtf8("\xed\xa0\x80"));      // surrogate
  EXPECT_FALSE(IsValidUtf8("\xf4\x90\x80\x80"));  // beyond U+10FFFF
  EXPECT_FALSE(IsValidUtf8("\xe2\x82"));          // cut off
}

TEST(Utf8Test, ReplacesEachInvalidByte) {
  EXPECT_EQ(ToValidUtf8("ok"), "ok");
  EXPECT_EQ(ToValidUtf8("a\xff\xfe"), "a\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_TRUE(IsValidUtf8(ToValidUtf8("\xe2\x82\xf0\x9f")));
}

TEST(DisplayWidthTest, CountsColumns) {
  EXPECT_EQ(DisplayWidth("abc"), 3u);
  EXPECT_EQ(DisplayWidth("é"), 1u);
  EXPECT_EQ(DisplayWidth("日本"), 4u);
  EXPECT_EQ(DisplayWidth("e\xcc\x81"), 1u);
}

TEST(TruncateTest, CutsBetweenCodePoints) {
  EXPECT_EQ(Truncate("short", 5), "short");
  EXPECT_EQ(Truncate("longer", 5, "…"), "long…");
  EXPECT_EQ(Truncate("日本語", 4, "…"), "日…");
}

TEST(TruncateTest, EndsInAsciiWithinTheWidth) {
  EXPECT_EQ(Truncate("longer", 5), "lo...");
  EXPECT_EQ(Truncate("longer", 2), "..");
  EXPECT_EQ(Truncate("longer", 0), "");
  EXPECT_EQ(Truncate("longer", 0, "…"), "");
}

TEST(NearestNameTest, FindsSlipsOnly) {
  const std::vector<std::string> names = {"max_length", "max_trials", "metric"};

  EXPECT_EQ(NearestName("max_lenght", names), "max_length");
  EXPECT_EQ(NearestName("metrics", names), "metric");
  EXPECT_EQ(NearestName("colour", names), "");
  EXPECT_EQ(NearestName("max_tr", names), "max_trials");
  EXPECT_EQ(NearestName("max_", names), "");
  EXPECT_EQ(NearestName("ma", names), "");
  EXPECT_EQ(NearestName("", names), "");
  EXPECT_EQ(DidYouMean("metirc", names), "; did you mean 'metric'?");
  EXPECT_EQ(DidYouMean("colour", names), "");
}

TEST(ParseTimestampTest, RefusesDatesThatDoNotExist) {
  EXPECT_TRUE(ParseTimestamp("2024-02-29"));
  EXPECT_TRUE(ParseTimestamp("2026-12-31T23:59:60Z"));  // a leap second
  for (const char* text : {"2026-02-29", "2026-02-30", "2026-04-31",
                           "2026-02-30T12:00:00Z", "2026-06-31 12:00:00"}) {
    EXPECT_FALSE(ParseTimestamp(text)) << text;
  }
}

TEST(FormatTimestampTest, IsRfc3339) {
  EXPECT_EQ(FormatTimestamp(Timestamp(0)), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(FormatTimestamp(Timestamp(1'763'710'544'000'042)),
            "2025-11-21T07:35:44.000042Z");
  EXPECT_EQ(FormatTimestamp(Timestamp(-1)), "1969-12-31T23:59:59.999999Z");
}

TEST(FormatElapsedTest, IsHoursMinutesSeconds) {
  EXPECT_EQ(FormatElapsed(seconds(0)), "0:00:00");
  EXPECT_EQ(FormatElapsed(milliseconds(10'900)), "0:00:10");
  EXPECT_EQ(FormatElapsed(seconds(3723)), "1:02:03");
  EXPECT_EQ(FormatElapsed(seconds(-1)), "0:00:00");
}

TEST(FormatDurationTest, SuitsTheSize) {
  EXPECT_EQ(FormatDuration(milliseconds(840)), "0.8s");
  EXPECT_EQ(FormatDuration(seconds(12)), "12s");
  EXPECT_EQ(FormatDuration(seconds(185)), "3m05s");
  EXPECT_EQ(FormatDuration(seconds(7800)), "2h10m");
  EXPECT_EQ(FormatDuration(seconds(356'400)), "4d03h");
  EXPECT_EQ(FormatDuration(seconds(-5)), "0.0s");
}

TEST(FormatNumberTest, IsShortestAndExact) {
  EXPECT_EQ(FormatNumber(0.1), "0.1");
  EXPECT_EQ(FormatNumber(1), "1");
  EXPECT_EQ(FormatNumber(std::nan("")), "NaN");
  EXPECT_EQ(FormatNumber(std::numeric_limits<double>::infinity()), "Infinity");
  EXPECT_EQ(FormatNumber(-std::numeric_limits<double>::infinity()),
            "-Infinity");
}

TEST(ParseDurationTest, TakesNumbersWithAndWithoutUnit) {
  EXPECT_EQ(ParseDuration("90", "x"), seconds(90));
  EXPECT_EQ(ParseDuration("1.5h", "x"), seconds(5400));
  EXPECT_EQ(ParseDuration("250ms", "x"), milliseconds(250));
  EXPECT_EQ(ParseDuration("2m", "x"), seconds(120));
  EXPECT_EQ(ParseDuration("1d", "x"), seconds(86'400));
}

TEST(ParseDurationTest, RefusesInvalidDurations) {
  EXPECT_THROW(ParseDuration("", "x"), Error);
  EXPECT_THROW(ParseDuration("soon", "x"), Error);
  EXPECT_THROW(ParseDuration("-1s", "x"), Error);
  EXPECT_THROW(ParseDuration("1 s", "x"), Error);
  EXPECT_THROW(ParseDuration("nan", "x"), Error);
  EXPECT_THROW(ParseDuration("1e300", "x"), Error);
  try {
    ParseDuration("10y", "--timeout");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("--timeout: '10y'"));
  }
}

TEST(TrimTest, RemovesSpacesAndTabsAtBothEnds) {
  EXPECT_EQ(Trim(" \ta b\t "), "a b");
  EXPECT_EQ(Trim("a\n"), "a\n");
  EXPECT_EQ(Trim(" \t "), "");
  EXPECT_EQ(Trim(""), "");
}

TEST(SplitTest, KeepsEmptyPieces) {
  EXPECT_THAT(Split("a,,b,", ','), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(Split("", ','), ElementsAre(""));
}

TEST(JoinTest, PutsSeparatorsBetween) {
  EXPECT_EQ(Join(std::vector<std::string>{"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(Join(std::vector<std::string>{}, ", "), "");
}

TEST(FormatBytesTest, WritesPowersOf1000) {
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1000), "1.0 kB");
  EXPECT_EQ(FormatBytes(999'960), "1.0 MB");
  EXPECT_EQ(FormatBytes(12'345'678'901), "12.3 GB");
}

TEST(ParseFiniteTest, ReadsAWholeNumberOnly) {
  EXPECT_EQ(ParseFinite("0.5"), 0.5);
  EXPECT_EQ(ParseFinite("-3e2"), -300);
  for (const char* text : {"", "x", "1x", " 1", "+1", "nan", "inf", "1e999"}) {
    EXPECT_EQ(ParseFinite(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace dtrain

#include "engine/report/terminal.h"

#include <map>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

Environment Variables(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

TEST(TerminalTest, ColorsAndRedrawsOnATerminal) {
  const auto mode =
      DecideMode(ColorChoice::kAuto, true, Variables({{"TERM", "xterm"}}));
  EXPECT_TRUE(mode.color);
  EXPECT_TRUE(mode.redraw);
}

TEST(TerminalTest, IsPlainWhereNobodyLooks) {
  const auto mode = DecideMode(ColorChoice::kAuto, false, Variables({}));
  EXPECT_FALSE(mode.color);
  EXPECT_FALSE(mode.redraw);
}

class PlainTerminalTest
    : public testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(PlainTerminalTest, IsPlainWhereTheEnvironmentSaysSo) {
  const auto mode =
      DecideMode(ColorChoice::kAuto, true, Variables({GetParam()}));
  EXPECT_FALSE(mode.color);
  EXPECT_FALSE(mode.redraw);
}

INSTANTIATE_TEST_SUITE_P(Variables, PlainTerminalTest,
                         testing::Values(std::pair("NO_COLOR", "1"),
                                         std::pair("CI", "true"),
                                         std::pair("TERM", "dumb")));

TEST(TerminalTest, IgnoresAnEmptyNoColor) {
  EXPECT_TRUE(DecideMode(ColorChoice::kAuto, true,
                         Variables({{"NO_COLOR", ""}, {"TERM", "xterm"}}))
                  .color);
}

TEST(TerminalTest, ObeysTheChoiceOfColors) {
  EXPECT_TRUE(
      DecideMode(ColorChoice::kAlways, false, Variables({{"NO_COLOR", "1"}}))
          .color);
  EXPECT_FALSE(DecideMode(ColorChoice::kNever, true, Variables({})).color);
}

TEST(TerminalTest, PaintsOnlyWithColors) {
  EXPECT_EQ(Paint({.color = false}, Tone::kBad, "no"), "no");
  EXPECT_EQ(Paint({.color = true}, Tone::kBad, "no"), "\x1b[31mno\x1b[0m");
  EXPECT_EQ(Paint({.color = true}, Tone::kPlain, "no"), "no");
}

}  // namespace
}  // namespace dtrain

#include "engine/base/placeholders.h"

#include <string>
#include <variant>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

std::string Fill(const std::string& text) {
  return FillTemplate(text,
                      [](const std::string& name) { return "<" + name + ">"; });
}

// Returns the position and text of the problem.
std::string ProblemOf(const std::string& text) {
  const auto parsed = ParseTemplate(text);
  const auto* problem = std::get_if<TemplateProblem>(&parsed);
  if (problem == nullptr) return "";
  return std::to_string(problem->at) + ": " + problem->what;
}

std::string OfLiteral(const std::string& text) {
  return TemplateOfLiteral(text,
                           [](std::string_view name) { return name == "lr"; });
}

TEST(PlaceholdersTest, FillsNames) {
  EXPECT_EQ(Fill("--lr={lr},{model.layers}"), "--lr=<lr>,<model.layers>");
  EXPECT_EQ(Fill("plain"), "plain");
  EXPECT_EQ(Fill(""), "");
}

TEST(PlaceholdersTest, TakesDoubledBracesLiterally) {
  EXPECT_EQ(Fill("{{lr}}"), "{lr}");
  EXPECT_EQ(Fill("{{{lr}}}"), "{<lr>}");
}

TEST(PlaceholdersTest, InsertsValuesWithBracesAsTheyAre) {
  EXPECT_EQ(FillTemplate("{a}{b}", [](const std::string&) { return "{b}"; }),
            "{b}{b}");
}

TEST(PlaceholdersTest, LocatesProblems) {
  EXPECT_EQ(ProblemOf("ab {"),
            "3: '{' begins no placeholder; write {NAME}, or {{ for a brace");
  EXPECT_EQ(ProblemOf("{}").substr(0, 2), "0:");
  EXPECT_EQ(ProblemOf("{a b}").substr(0, 2), "0:");
  EXPECT_EQ(ProblemOf("{a} }"), "4: '}' without '{'; write }} for a brace");
  EXPECT_EQ(ProblemOf("{{a}} {b}"), "");
}

TEST(PlaceholdersTest, ReplacesOnlyKnownNamesOfLiteralText) {
  EXPECT_EQ(OfLiteral("--lr={lr}"), "--lr={lr}");
  EXPECT_EQ(Fill(OfLiteral("{\"a\": {lr}} {other} ${lr}")),
            "{\"a\": <lr>} {other} ${lr}");
}

}  // namespace
}  // namespace dtrain

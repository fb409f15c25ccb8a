#include "engine/base/placeholders.h"

#include <string>
#include <variant>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

std::string Fill(const std::string& text) {
  return FillTemplate(
      text, [](const TemplatePart& part) { return "<" + part.text + ">"; });
}

// Returns the position and text of the problem.
std::string FindProblem(const std::string& text) {
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
  EXPECT_EQ(FillTemplate("{a}{b}", [](const TemplatePart&) { return "{b}"; }),
            "{b}{b}");
}

TEST(PlaceholdersTest, LocatesProblems) {
  EXPECT_EQ(FindProblem("ab {"),
            "3: '{' begins no placeholder; write {NAME}, or {{ for a brace");
  EXPECT_EQ(FindProblem("{}").substr(0, 2), "0:");
  EXPECT_EQ(FindProblem("{a b}").substr(0, 2), "0:");
  EXPECT_EQ(FindProblem("{a} }"), "4: '}' without '{'; write }} for a brace");
  EXPECT_EQ(FindProblem("{{a}} {b}"), "");
}

// Returns "NAME -ON -OFF" of the placeholder that begins `text`, and its size.
std::string FlagAt(const std::string& text) {
  const auto [part, bytes] = FindPlaceholder(text, 0);
  return part.text + " " + part.on + " " + part.off + " " +
         std::to_string(bytes);
}

TEST(PlaceholdersTest, FindsOptionsOfFlags) {
  EXPECT_EQ(FlagAt("{amp:--amp}"), "amp --amp  11");
  EXPECT_EQ(FlagAt("{amp:--amp|--no-amp}, "), "amp --amp --no-amp 20");
  EXPECT_EQ(FlagAt("{m.amp:-a=1|-b}"), "m.amp -a=1 -b 15");
  EXPECT_EQ(FlagAt("{amp}"), "amp   5");
  for (const std::string text :
       {"{amp:}", "{amp:amp}", "{amp: --amp}", "{amp:--amp |--no}",
        "{amp:--amp|}", "{amp:--amp|no}", "{amp|--amp}", "{amp:--a{b}}",
        "{:--amp}", "{amp:--amp"}) {
    EXPECT_EQ(FindPlaceholder(text, 0).second, 0) << text;
  }
}

TEST(PlaceholdersTest, FindsTheOnlyPlaceholderOfAnArgument) {
  const auto only = [](const std::string& text) {
    const auto part = OnlyPlaceholder(text);
    return part ? part->text : "";
  };
  EXPECT_EQ(only("{a}"), "a");
  EXPECT_EQ(only("--x={a}"), "a");
  EXPECT_EQ(only("{a:--b}"), "a");
  for (const std::string text :
       {"x={a}", "{a}{b}", "{a}.pt", "--x=y={a}", "--x{a}", "a", "", "{{a}}"}) {
    EXPECT_EQ(only(text), "") << text;
  }
}

TEST(PlaceholdersTest, ReplacesOnlyKnownNamesOfLiteralText) {
  EXPECT_EQ(OfLiteral("--lr={lr}"), "--lr={lr}");
  EXPECT_EQ(OfLiteral("{lr:--a|--b}"), "{lr:--a|--b}");
  EXPECT_EQ(OfLiteral("{b:--a}"), "{{b:--a}}");
  EXPECT_EQ(Fill(OfLiteral("{\"a\": {lr}} {other} ${lr}")),
            "{\"a\": <lr>} {other} ${lr}");
}

}  // namespace
}  // namespace dtrain

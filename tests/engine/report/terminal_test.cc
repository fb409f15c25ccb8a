#include "engine/report/terminal.h"

#include <map>
#include <sstream>

#include <gmock/gmock.h>
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

TEST(TerminalTest, IsPlainWithoutATerminal) {
  const auto mode = DecideMode(ColorChoice::kAuto, false, Variables({}));
  EXPECT_FALSE(mode.color);
  EXPECT_FALSE(mode.redraw);
}

class PlainTerminalTest
    : public testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(PlainTerminalTest, FollowsTheEnvironment) {
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

TEST(TerminalTest, TakesTheEncodingFromTheFirstVariableThatIsSet) {
  const auto utf8 = [](const std::map<std::string, std::string>& variables) {
    return DecideMode(ColorChoice::kAuto, true, Variables(variables)).utf8;
  };
  EXPECT_FALSE(utf8({}));
  EXPECT_TRUE(utf8({{"LANG", "de_DE.UTF-8"}}));
  EXPECT_TRUE(utf8({{"LC_CTYPE", "C.utf8"}, {"LANG", "C"}}));
  EXPECT_FALSE(utf8({{"LC_ALL", "C"}, {"LANG", "en_US.UTF-8"}}));
  EXPECT_TRUE(utf8({{"LC_ALL", ""}, {"LANG", "en_US.UTF-8"}}));
}

TEST(TerminalTest, PaintsOnlyWithColors) {
  EXPECT_EQ(Paint({.color = false}, Tone::kBad, "no"), "no");
  EXPECT_EQ(Paint({.color = true}, Tone::kBad, "no"), "\x1b[31mno\x1b[0m");
  EXPECT_EQ(Paint({.color = true}, Tone::kPlain, "no"), "no");
}

}  // namespace

namespace {

class TableTest : public testing::Test {
 protected:
  std::string Text(std::size_t width = 0, bool color = false) const {
    std::ostringstream out;
    table_.PrintText(out, {.color = color, .utf8 = true, .width = width});
    return out.str();
  }
  std::string Csv() const {
    std::ostringstream out;
    table_.PrintCsv(out);
    return out.str();
  }

  Table table_{{{.name = "id", .right = true},
                {.name = "full_name", .elastic = true},
                {.name = "state"}}};
};

TEST_F(TableTest, AlignsColumnsUnderTheirNames) {
  table_.AddRow({"7", "short", "ok"});
  table_.AddRow({"12", "rather longer", "failed"});

  EXPECT_EQ(Text(),
            "ID  FULL NAME      STATE\n"
            " 7  short          ok\n"
            "12  rather longer  failed\n");
}

TEST_F(TableTest, CutsOnlyElasticColumnsToTheWidth) {
  table_.AddRow({"7", "a name that does not fit", "ok"});

  EXPECT_EQ(Text(/*width=*/21),
            "ID  FULL NAME   STATE\n"
            " 7  a name th…  ok\n");
}

TEST_F(TableTest, CutsByThreeDotsWithoutUtf8) {
  table_.AddRow({"7", "a name that does not fit", "ok"});
  std::ostringstream out;
  table_.PrintText(out, {.width = 21});

  EXPECT_EQ(out.str(),
            "ID  FULL NAME   STATE\n"
            " 7  a name ...  ok\n");
}

TEST_F(TableTest, NeverPrintsALineWiderThanTheTerminal) {
  table_.AddRow({"7", "a name that does not fit", "INTERRUPTED"});

  EXPECT_EQ(Text(/*width=*/16),
            "ID  FULL NAME\n"
            " 7  a name that…\n"
            "(omitted: STATE;\n"
            "use a wider\n"
            "terminal or\n"
            "--json)\n");
}

TEST_F(TableTest, CutsTheNameBeforeANumberAndNeverTheNumber) {
  // Without the note on omitted columns.
  const auto text = [](std::size_t width, bool utf8 = true) {
    Table table({{.name = "id"},
                 {.name = "best", .elastic = true, .least = 12},
                 {.name = "state", .optional = true}});
    table.AddRow(
        {"7", Cell("val_accuracy 0.93456", "", Tone::kPlain, 13), "COMPLETED"});
    std::ostringstream out;
    table.PrintText(out, {.utf8 = utf8, .width = width});
    return out.str().substr(0, out.str().find('('));
  };
  EXPECT_EQ(text(40),
            "ID  BEST                  STATE\n"
            "7   val_accuracy 0.93456  COMPLETED\n");
  EXPECT_EQ(text(30),
            "ID  BEST             STATE\n"
            "7   val_ac… 0.93456  COMPLETED\n");
  EXPECT_EQ(text(14),
            "ID  BEST\n"
            "7   v… 0.93456\n");
  EXPECT_EQ(text(11),
            "ID  BEST\n"
            "7   0.93456\n");
  EXPECT_EQ(text(16, /*utf8=*/false),
            "ID  BEST\n"
            "7   v... 0.93456\n");
  EXPECT_EQ(text(15, /*utf8=*/false),
            "ID  BEST\n"
            "7   0.93456\n");
}

TEST_F(TableTest, CutsNoNumberInAColumnThatIsNotElastic) {
  Table table({{.name = "id"}, {.name = "value", .right = true}});
  table.AddRow({"7", "0.123456"});
  std::ostringstream out;
  table.PrintText(out, {.width = 9});

  EXPECT_THAT(out.str(), testing::StartsWith("ID\n7\n(omitted"));
}

TEST_F(TableTest, OmitsTheLastOptionalColumnsIfNarrow) {
  Table table({{.name = "id"},
               {.name = "one", .optional = true},
               {.name = "name", .elastic = true, .least = 4},
               {.name = "two", .optional = true}});
  table.AddRow({"7", "1", "a long name", "2"});
  std::ostringstream out;
  table.PrintText(out, {.utf8 = true, .width = 14});
  table.PrintCsv(out);

  EXPECT_EQ(out.str(),
            "ID  ONE  NAME\n"
            "7   1    a lo…\n"
            "(omitted: TWO;\n"
            "use a wider\n"
            "terminal or\n"
            "--json)\n"
            "id,one,name,two\r\n"
            "7,1,a long name,2\r\n");
}

TEST_F(TableTest, NamesTheFirstOfManyOmittedColumns) {
  std::vector<Column> columns = {{.name = "id"}};
  for (int i = 1; i <= 20; ++i) {
    columns.push_back({.name = "hp" + std::to_string(i), .optional = true});
  }
  Table table(columns);
  table.AddRow(std::vector<Cell>(21, Cell("0.123456")));
  std::ostringstream out;
  table.PrintText(out, {.width = 80});

  EXPECT_THAT(out.str(), testing::HasSubstr(
                             "\n(omitted: HP8, HP9, HP10, HP11, HP12, HP13, "
                             "HP14, HP15 and 5 more; use a wider\n"
                             "terminal or --json)\n"));
}

TEST_F(TableTest, EscapesControlCharacters) {
  table_.AddRow({"7", "evil\x1b]0;title\x07\nname", "ok"});

  EXPECT_EQ(Text(),
            "ID  FULL NAME                     STATE\n"
            " 7  evil\\x1b]0;title\\x07\\x0aname  ok\n");
}

TEST_F(TableTest, CountsColumnsOfWideCharacters) {
  table_.AddRow({"7", "実験", "ok"});
  table_.AddRow({"8", "é", "ok"});

  EXPECT_EQ(Text(),
            "ID  FULL NAME  STATE\n"
            " 7  実験       ok\n"
            " 8  é          ok\n");
}

TEST_F(TableTest, PaintsCellsWithoutMovingThem) {
  table_.AddRow({"7", Cell("x", "x", Tone::kGood), "ok"});

  EXPECT_NE(Text(0, /*color=*/true).find("\x1b[32mx\x1b[0m          ok"),
            std::string::npos);
}

TEST_F(TableTest, WritesCsvOfRfc4180) {
  table_.AddRow({"7", "comma, \"quote\"\nline", Cell("42%", "0.42")});

  EXPECT_EQ(Csv(),
            "id,full_name,state\r\n"
            "7,\"comma, \"\"quote\"\"\nline\",0.42\r\n");
}

TEST_F(TableTest, WritesCsvInValidUtf8) {
  EXPECT_EQ(CsvField("\xff"), "\xEF\xBF\xBD");
  EXPECT_EQ(CsvLine({"a\x1b\n", "b"}, /*terminal=*/true), "a\\x1b\\x0a,b\r\n");
}

TEST(CsvFieldTest, NoTextIsAFormula) {
  struct Case {
    std::string text;
    std::string field;
  };
  for (const auto& [text, field] :
       std::vector<Case>{{"=cmd|'/C calc'!A0", "'=cmd|'/C calc'!A0"},
                         {"=A1,B1", "\"'=A1,B1\""},
                         {"+1", "'+1"},
                         {"@SUM(A1)", "'@SUM(A1)"},
                         {"-lr", "'-lr"},
                         {"-1+A1", "'-1+A1"},
                         {"\t=1", "'\t=1"},
                         {"-0.5", "-0.5"},
                         {"-1e-300", "-1e-300"},
                         {"-Infinity", "-Infinity"},
                         {"-", "-"},
                         {"a=b", "a=b"},
                         {"", ""}}) {
    EXPECT_EQ(CsvField(text), field);
  }
}

TEST(WrapTextTest, BreaksAtBlanksAndKeepsQuotesWhole) {
  struct Case {
    std::string text;
    std::size_t first;
    std::size_t indent;
    std::size_t width;
    std::string wrapped;
  };
  const std::vector<Case> cases = {
      {"one two three", 0, 0, 0, "one two three"},
      {"one two three", 0, 0, 13, "one two three"},
      {"one two three", 0, 2, 8, "one two\n  three"},
      {"one two three", 5, 2, 8, "one\n  two\n  three"},
      {"trial's too long a sentence", 0, 0, 12,
       "trial's too\nlong a\nsentence"},
      {"run 'dtrain resume 12' now", 0, 2, 12,
       "run\n  'dtrain resume 12'\n  now"},
      {"(`a b c`) d", 0, 0, 5, "(`a b c`)\nd"},
      {"an 'open quote of words", 0, 0, 9, "an 'open\nquote of\nwords"},
      {"incomprehensibilities", 0, 0, 5, "incomprehensibilities"},
      {"größe größe", 0, 0, 6, "größe\ngröße"},
      {"", 3, 0, 5, ""},
  };
  for (const Case& it : cases) {
    EXPECT_EQ(WrapText(it.text, it.first, it.indent, it.width), it.wrapped);
  }
}

TEST(NarrowTableTest, LosesEmptyColumnsAndLongNamesFirst) {
  Table table({{.name = "trial"},
               {.name = "optimizer.lr",
                .optional = true,
                .verbatim = true,
                .brief = "lr"},
               {.name = "checkpoint"},
               {.name = "state"}});
  table.AddRow({"3.1", "0.001", "", "RUNNING"});
  const auto print = [&](std::size_t width) {
    std::ostringstream out;
    table.PrintText(out, {.width = width});
    return out.str();
  };
  EXPECT_EQ(print(80),
            "TRIAL  optimizer.lr  CHECKPOINT  STATE\n"
            "3.1    0.001                     RUNNING\n");
  EXPECT_EQ(print(35),
            "TRIAL  lr     CHECKPOINT  STATE\n"
            "3.1    0.001              RUNNING\n");
  EXPECT_EQ(print(22),
            "TRIAL  lr     STATE\n"
            "3.1    0.001  RUNNING\n");
}

}  // namespace

}  // namespace dtrain

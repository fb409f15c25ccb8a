#include "engine/report/table.h"

#include <sstream>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

class TableTest : public testing::Test {
 protected:
  std::string Text(std::size_t width = 0, bool color = false) const {
    std::ostringstream out;
    table_.PrintText(out, {.color = color, .width = width});
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

TEST_F(TableTest, NeverPrintsALineWiderThanTheTerminal) {
  table_.AddRow({"7", "a name that does not fit", "INTERRUPTED"});

  EXPECT_EQ(Text(/*width=*/16),
            "ID  FULL NA…  S…\n"
            " 7  a name …  I…\n");
}

TEST_F(TableTest, LeavesOutTheLastOptionalColumnsWhereItIsNarrow) {
  Table table({{.name = "id"},
               {.name = "one", .optional = true},
               {.name = "name", .elastic = true, .least = 4},
               {.name = "two", .optional = true}});
  table.AddRow({"7", "1", "a long name", "2"});
  std::ostringstream out;
  table.PrintText(out, {.width = 14});
  table.PrintCsv(out);

  EXPECT_EQ(out.str(),
            "ID  ONE  NAME\n"
            "7   1    a lo…\n"
            "id,one,name,two\r\n"
            "7,1,a long name,2\r\n");
}

TEST_F(TableTest, ShowsWhatATerminalWouldObey) {
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

TEST_F(TableTest, WritesCsvAsRfc4180Says) {
  table_.AddRow({"7", "comma, \"quote\"\nline", Cell("42%", "0.42")});

  EXPECT_EQ(Csv(),
            "id,full_name,state\r\n"
            "7,\"comma, \"\"quote\"\"\nline\",0.42\r\n");
}

TEST_F(TableTest, WritesCsvInValidUtf8) {
  EXPECT_EQ(CsvField("\xff"), "\xEF\xBF\xBD");
  EXPECT_EQ(CsvLine({"a\x1b\n", "b"}, /*terminal=*/true), "a\\x1b\\x0a,b\r\n");
}

}  // namespace
}  // namespace dtrain

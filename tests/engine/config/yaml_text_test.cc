#include "engine/config/yaml_text.h"

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

TEST(YamlTextTest, SeesQuotesThatStayOpen) {
  EXPECT_TRUE(IsUnclosedQuote("a: \"x", 3));
  EXPECT_TRUE(IsUnclosedQuote("a: \"x\\\"", 3));
  EXPECT_TRUE(IsUnclosedQuote("a: 'x''", 3));
  EXPECT_TRUE(IsUnclosedQuote("a: !!str 'x", 3));
}

TEST(YamlTextTest, SeesQuotesThatAreClosed) {
  EXPECT_FALSE(IsUnclosedQuote("a: \"x\\\"\"", 3));
  EXPECT_FALSE(IsUnclosedQuote("a: 'it''s'", 3));
  EXPECT_FALSE(IsUnclosedQuote("a: | \"x", 3));
  EXPECT_FALSE(IsUnclosedQuote("a: !!str x'", 3));
}

}  // namespace
}  // namespace dtrain

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/query/filter.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

QueryContext ListContext() {
  return {.option = "--sort", .resolve = [](const FieldName& field) {
            if (field.name.starts_with('?')) {
              throw Error(ErrorKind::kNotFound, "unknown");
            }
            return ResolvedField{};
          }};
}

std::vector<std::string> Keys(const std::string& text) {
  QueryContext context = ListContext();
  context.resolve = [](const FieldName& field) {
    const bool unknown = (field.name.starts_with('-') && field.name != "-a") ||
                         field.name.ends_with(')');
    if (unknown) throw Error(ErrorKind::kNotFound, "unknown name");
    return ResolvedField{};
  };
  std::vector<std::string> keys;
  for (const SortKey& key : ParseSortKeys(text, context)) {
    keys.push_back((key.descending ? "down " : "up ") + key.field.Text());
  }
  return keys;
}

std::vector<std::string> Columns(const std::string& text) {
  const auto expand = [](const std::string& name) {
    return std::vector<FieldName>{{.name = name + "1"}, {.name = name + "2"}};
  };
  std::vector<std::string> columns;
  for (const FieldName& field : ParseColumns(text, ListContext(), expand)) {
    columns.push_back(field.Text());
  }
  return columns;
}

template <typename Parse>
std::string RefusalText(const Parse& parse) {
  try {
    (void)parse();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SortKeysTest, TurnsTheOrderWithAMinusSign) {
  EXPECT_THAT(Keys("-val_accuracy,hp.lr"),
              ElementsAre("down val_accuracy", "up hp.lr"));
  EXPECT_THAT(Keys("- loss , -'a b',-min(loss)"),
              ElementsAre("down loss", "down a b", "down min(loss)"));
}

TEST(SortKeysTest, RefusesADrawing) {
  EXPECT_THAT(RefusalText([] { return Keys("id,spark(loss)"); }),
              HasSubstr("expected a value at character 4; spark() only draws"));
}

TEST(SortKeysTest, KeepsAMinusSignThatIsPartOfTheName) {
  EXPECT_THAT(Keys("-a,--a"), ElementsAre("up -a", "down -a"));
}

TEST(SortKeysTest, RefusesAnIncompleteList) {
  EXPECT_THAT(RefusalText([] { return Keys("loss,"); }),
              HasSubstr("expected a name at character 6"));
  EXPECT_THAT(RefusalText([] { return Keys("val loss"); }),
              HasSubstr("expected ',' at character 5; quote names that have "
                        "blanks"));
  EXPECT_THAT(RefusalText([] { return Keys(""); }),
              HasSubstr("expected a name"));
}

TEST(ColumnsTest, TakesNamesFunctionsAndPatterns) {
  EXPECT_THAT(Columns("id,hp.*, min(loss),'a b'"),
              ElementsAre("id", "hp.*1", "hp.*2", "min(loss)", "a b"));
}

TEST(ColumnsTest, RefusesUnknownAndRepeatedColumns) {
  EXPECT_THAT(RefusalText([] { return Columns("id,?x"); }),
              HasSubstr("at character 4: unknown"));
  EXPECT_THAT(RefusalText([] { return Columns("id,x,id"); }),
              HasSubstr("column 'id' comes twice, at character 6"));
}

TEST(FieldTest, OrdersMissingValuesLast) {
  const FieldValue none;
  EXPECT_TRUE(ComesBefore(1.0, 2.0, false));
  EXPECT_TRUE(ComesBefore(2.0, 1.0, true));
  EXPECT_FALSE(ComesBefore(1.0, 1.0, false));
  EXPECT_TRUE(ComesBefore(1.0, none, false));
  EXPECT_TRUE(ComesBefore(1.0, none, true));
  EXPECT_TRUE(ComesBefore(1.0, NAN, true));
  EXPECT_FALSE(ComesBefore(none, 1.0, true));
  EXPECT_TRUE(ComesBefore(1.0, std::string("a"), false));
  EXPECT_TRUE(ComesBefore(std::string("a"), 1.0, true));
  EXPECT_TRUE(ComesBefore(std::string("a"), std::string("b"), false));
}

TEST(FieldTest, ShowsValuesAsText) {
  EXPECT_EQ(FieldText(0.5), "0.5");
  EXPECT_EQ(FieldText(FieldValue()), "");
  EXPECT_EQ(FieldText(std::vector<std::string>{"a", "b"}), "a,b");
  EXPECT_EQ(FieldText(Timestamp(0)), "1970-01-01T00:00:00.000000Z");
}

}  // namespace
}  // namespace dtrain

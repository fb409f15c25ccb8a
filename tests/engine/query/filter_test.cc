#include "engine/query/filter.h"

#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const json& Cases() {
  static const json cases =
      json::parse(std::ifstream(std::string(DTRAIN_SOURCE_DIR) +
                                "/tests/engine/query/filter_cases.json"));
  return cases;
}

FieldKind KindFromName(const std::string& name) {
  const std::map<std::string, FieldKind> kinds = {
      {"number", FieldKind::kNumber},     {"text", FieldKind::kText},
      {"texts", FieldKind::kTexts},       {"time", FieldKind::kTime},
      {"duration", FieldKind::kDuration}, {"any", FieldKind::kAny}};
  return kinds.at(name);
}

QueryContext Context() {
  return {.option = "--filter",
          .resolve =
              [](const FieldName& field) {
                const bool calls = field.function != FieldFunction::kNone;
                const json& kinds = Cases()[calls ? "functions" : "kinds"];
                const auto kind = kinds.find(field.Text());
                if (kind == kinds.end()) {
                  throw Error(ErrorKind::kNotFound,
                              "unknown name '" + field.Text() + "'");
                }
                ResolvedField resolved{.kind = KindFromName(*kind)};
                const json& words = Cases()["words"];
                if (words.contains(field.Text())) {
                  words.at(field.Text()).get_to(resolved.words);
                }
                return resolved;
              },
          .now = *ParseTimestamp(Cases()["now"])};
}

FieldValue GetValue(const json& row, const FieldName& field) {
  const auto found = row.find(field.Text());
  if (found == row.end()) return std::monostate();
  switch (Context().resolve(field).kind) {
    case FieldKind::kTime:
      return *ParseTimestamp(*found);
    case FieldKind::kTexts:
      return found->get<std::vector<std::string>>();
    case FieldKind::kNumber:
    case FieldKind::kBytes:
    case FieldKind::kDuration:
    case FieldKind::kShare:
      return NumberFromJson(*found);
    case FieldKind::kText:
    case FieldKind::kAny:
      break;
  }
  if (found->is_number_integer()) return found->get<std::int64_t>();
  if (found->is_number()) return found->get<double>();
  return found->get<std::string>();
}

std::string FilterText(const json& one) {
  if (!one.contains("repeat")) return one["filter"];
  std::string text;
  for (int i = 0; i < one["times"].get<int>(); ++i) {
    text += one["repeat"].get<std::string>();
  }
  return text;
}

json SelectedBy(const Filter& filter) {
  json ids = json::array();
  for (const json& row : Cases()["rows"]) {
    const bool selected = filter.Matches(
        [&](const FieldName& field) { return GetValue(row, field); });
    if (selected) ids.push_back(row["id"]);
  }
  return ids;
}

std::string ParseError(const std::string& text) {
  try {
    (void)Filter::Parse(text, Context());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(FilterTest, SelectsTheRowsOfEachCase) {
  for (const json& one : Cases()["cases"]) {
    if (!one.contains("matches")) continue;
    SCOPED_TRACE(one["filter"]);
    EXPECT_EQ(SelectedBy(Filter::Parse(FilterText(one), Context())),
              one["matches"]);
  }
}

TEST(FilterTest, ExplainsTheErrorOfEachCase) {
  for (const json& one : Cases()["cases"]) {
    if (!one.contains("error")) continue;
    SCOPED_TRACE(one.dump());
    EXPECT_THAT(ParseError(FilterText(one)),
                HasSubstr(one["error"].get<std::string>()));
  }
}

// JavaScript reads these integers as doubles, so that they are no common cases.
bool HoldsFor(const FieldValue& value, const std::string& condition) {
  return Filter::Parse("hp.lr " + condition, Context())
      .Matches([&](const FieldName&) { return value; });
}

TEST(FilterTest, ComparesIntegersBeyondThoseOfADouble) {
  const FieldValue odd = std::int64_t{9007199254740993};
  EXPECT_TRUE(HoldsFor(odd, "== 9007199254740993"));
  EXPECT_FALSE(HoldsFor(odd, "== 9007199254740992"));
  EXPECT_TRUE(HoldsFor(odd, "!= 9007199254740992"));
  EXPECT_TRUE(HoldsFor(odd, "> 9007199254740992"));
  EXPECT_FALSE(HoldsFor(odd, "> 9007199254740993"));
  EXPECT_TRUE(HoldsFor(odd, "<= 9007199254740993"));
  EXPECT_TRUE(HoldsFor(odd, "in (1, 9007199254740993)"));
  EXPECT_TRUE(HoldsFor(odd, "> 9.007199254740992e15"));
  EXPECT_FALSE(HoldsFor(odd, "== 9.007199254740992e15"));
}

TEST(FilterTest, ComparesAnIntegerWithAnyOtherNumber) {
  const FieldValue three = std::int64_t{3};
  EXPECT_TRUE(HoldsFor(three, "== 3.0"));
  EXPECT_TRUE(HoldsFor(three, "< 3.5"));
  EXPECT_TRUE(HoldsFor(three, "> 2.5"));
  EXPECT_TRUE(HoldsFor(three, "< inf"));
  EXPECT_TRUE(HoldsFor(three, "> -1e300"));
  EXPECT_TRUE(HoldsFor(std::int64_t{-3}, "< -2.5"));
  EXPECT_TRUE(HoldsFor(std::int64_t{-3}, "> -3.5"));
  EXPECT_FALSE(HoldsFor(three, "== nan"));
  EXPECT_TRUE(HoldsFor(three, "!= nan"));
  EXPECT_TRUE(HoldsFor(2.5, "< 3"));
  EXPECT_TRUE(HoldsFor(1e300, "> 9223372036854775807"));
}

TEST(FieldValueTest, OrdersIntegersAndOtherNumbersByValue) {
  const FieldValue small = std::int64_t{9007199254740992};
  const FieldValue large = std::int64_t{9007199254740993};
  EXPECT_TRUE(ComesBefore(small, large, /*descending=*/false));
  EXPECT_FALSE(ComesBefore(large, small, /*descending=*/false));
  EXPECT_TRUE(ComesBefore(large, small, /*descending=*/true));
  EXPECT_TRUE(ComesBefore(2.5, std::int64_t{3}, /*descending=*/false));
  EXPECT_FALSE(ComesBefore(std::int64_t{3}, 2.5, /*descending=*/false));
  EXPECT_EQ(FieldText(large), "9007199254740993");
  EXPECT_EQ(FieldText(std::int64_t{5000000}), "5000000");
}

TEST(FilterTest, BeginsErrorsWithTheOptionAndTheExpression) {
  EXPECT_EQ(ParseError("id = 1"),
            "--filter: 'id = 1': expected an operator (== != < <= > >= ~ in "
            "is) at character 4; write == for equal");
}

TEST(FilterTest, ShowsThePartOfALongExpressionAroundTheError) {
  const std::string before(1000, ' ');
  EXPECT_EQ(ParseError("id == 1" + before + "or \x1b" + before),
            "--filter: '...                           or \\x1b"
            "                             ...': at character 1011: unknown "
            "name '\x1b'");
}

TEST(FilterTest, KeepsTheKindOfTheResolversError) {
  try {
    (void)Filter::Parse("los < 1", Context());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  }
}

TEST(FilterTest, HasTheTextOfEachPart) {
  const Filter filter = Filter::Parse(
      " id < 3 and (loss<1 or not id==2)and  name ~ 'a' ", Context());
  std::vector<std::string> texts;
  for (const Filter& part : filter.Conjuncts()) texts.push_back(part.text());
  EXPECT_THAT(texts,
              ElementsAre("id < 3", "(loss<1 or not id==2)", "name ~ 'a'"));
  EXPECT_EQ(filter.Conjuncts()[0].comparison()->op, CompareOp::kLess);
  EXPECT_EQ(filter.Conjuncts()[1].comparison(), nullptr);
}

TEST(FilterTest, NamesItsFieldsOnce) {
  const Filter filter = Filter::Parse(
      "name == a or (id < 3 and min(loss) < 1 and not id == 2)", Context());
  std::vector<std::string> fields;
  for (const FieldName& field : filter.Fields()) fields.push_back(field.Text());
  EXPECT_THAT(fields, ElementsAre("id", "name", "min(loss)"));
}

TEST(FilterTest, MatchesEveryRowIfItIsEmpty) {
  EXPECT_TRUE(Filter().Matches({}));
}

// Expressions of the first version: names and values extend to the next blank
// or operator.
QueryContext PlainContext() {
  return {.option = "--require", .resolve = [](const FieldName& field) {
            if (field.name.find('?') != std::string::npos) {
              throw Error(ErrorKind::kUsage, "unknown");
            }
            return ResolvedField{};
          }};
}

struct PlainCase {
  std::string text;
  std::string name;
  std::string value;
};

class PlainFilterTest : public testing::TestWithParam<PlainCase> {};

TEST_P(PlainFilterTest, KeepsItsMeaning) {
  const Filter filter =
      Filter::ParseWithPlainNames(GetParam().text, PlainContext());
  ASSERT_NE(filter.comparison(), nullptr);
  EXPECT_EQ(filter.comparison()->field.Text(), GetParam().name);
  EXPECT_EQ(filter.comparison()->values.at(0).text, GetParam().value);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, PlainFilterTest,
    testing::Values(PlainCase{"loss<1", "loss", "1"},
                    PlainCase{"name==a,b", "name", "a,b"},
                    PlainCase{"name==beta(2)", "name", "beta(2)"},
                    PlainCase{"name==(x", "name", "(x"},
                    PlainCase{"val,loss >= .5", "val,loss", ".5"},
                    PlainCase{"a~b==1", "a~b", "1"},
                    PlainCase{"f(x)<1", "f(x)", "1"},
                    PlainCase{"max(loss)<1", "max(loss)", "1"},
                    PlainCase{"not==1", "not", "1"},
                    PlainCase{"'a b'==\"c d\"", "a b", "c d"}));

TEST(PlainFilterTest, JoinsByAnd) {
  const Filter filter = Filter::ParseWithPlainNames(
      "f(x)<1\nAND a,b>2 and 'c d'==e", PlainContext());
  ASSERT_EQ(filter.Conjuncts().size(), 3U);
  EXPECT_EQ(filter.Conjuncts()[1].text(), "a,b>2");
}

TEST(PlainFilterTest, ReportsTheErrorOfTheLanguage) {
  try {
    (void)Filter::ParseWithPlainNames("a,b?>2", PlainContext());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("expected an operator"));
  }
}

}  // namespace
}  // namespace dtrain

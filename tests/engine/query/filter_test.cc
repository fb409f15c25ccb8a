#include "engine/query/filter.h"

#include <fstream>
#include <limits>
#include <map>
#include <optional>

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

FieldValue Calculated(const std::string& term, const FieldValue& value) {
  const Filter filter = Filter::Parse(term + " + 0 < hp.lr * 1", Context());
  return filter.comparison()->left.Calculate(
      [&](const FieldName&) { return value; });
}

TEST(FilterTest, CalculatesWithIntegersExactly) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const FieldValue odd = std::int64_t{9007199254740993};
  EXPECT_EQ(Calculated("hp.lr - 1", odd), FieldValue(9007199254740992));
  EXPECT_EQ(Calculated("hp.lr % 2", odd), FieldValue(std::int64_t{1}));
  EXPECT_EQ(Calculated("hp.lr * 1023", odd), FieldValue(9214364837600035839));
  EXPECT_EQ(Calculated("hp.lr + 1", kMost), FieldValue(0x1p63));
  EXPECT_EQ(Calculated("hp.lr - 1", kLeast), FieldValue(-0x1p63));
  EXPECT_EQ(Calculated("hp.lr % -1", kLeast), FieldValue(std::int64_t{0}));
  EXPECT_EQ(Calculated("hp.lr / 2", std::int64_t{6}), FieldValue(3.0));
}

TEST(FilterTest, CalculatesRestsWithTheSignOfTheDivisor) {
  EXPECT_EQ(Calculated("hp.lr % 3", std::int64_t{-7}), FieldValue(2L));
  EXPECT_EQ(Calculated("hp.lr % -3", std::int64_t{7}), FieldValue(-2L));
  EXPECT_EQ(Calculated("hp.lr % 3", -0.5), FieldValue(2.5));
  EXPECT_EQ(Calculated("hp.lr % -3", 0.5), FieldValue(-2.5));
}

TEST(FilterTest, HasNoValueForTextsAndDivisionsByZero) {
  const FieldValue none;
  EXPECT_EQ(Calculated("hp.lr * 2", "adam"), none);
  EXPECT_EQ(Calculated("hp.lr * 2", none), none);
  EXPECT_EQ(Calculated("1 / hp.lr", 0.0), none);
  EXPECT_EQ(Calculated("1 % hp.lr", std::int64_t{0}), none);
}

TEST(FilterTest, LimitsTheDepthOfTerms) {
  const auto nested = [](int levels) {
    return "id < " + std::string(levels, '(') + "1" + std::string(levels, ')');
  };
  EXPECT_EQ(ParseError(nested(100)), "");
  EXPECT_THAT(ParseError(nested(101)), HasSubstr("more than 100 levels"));
}

TEST(FilterTest, NamesTheSignInAName) {
  EXPECT_THAT(ParseError("id*2 == 4"),
              HasSubstr("at character 1: unknown name 'id*2'; to calculate, "
                        "write blanks around *"));
  EXPECT_EQ(ParseError("'val loss' * 2 == 4"), "");
}

TEST(FilterTest, ComparesFieldsWhereNamesAreNoTexts) {
  QueryContext context = Context();
  context.compares_fields = true;
  const auto holds = [&](const std::string& text) {
    return Filter::Parse(text, context).Matches([](const FieldName& field) {
      return FieldValue(field.name == "id" ? 3.0 : 4.0);
    });
  };
  EXPECT_TRUE(holds("id < loss"));
  EXPECT_FALSE(holds("id == loss"));
  EXPECT_TRUE(holds("hp.lr == loss"));
  EXPECT_FALSE(holds("hp.lr == 'loss'"));
  EXPECT_FALSE(holds("hp.lr == adam"));
}

TEST(FilterTest, DecidesByTheComparisonsThatAreKnown) {
  struct Case {
    const char* filter;
    std::optional<bool> result;
  };
  // Only the comparisons of `loss` are open.
  const Case cases[] = {
      {"id == 1 and loss < 1", std::nullopt}, {"id == 2 and loss < 1", false},
      {"loss < 1 and id == 2", false},        {"id == 1 or loss < 1", true},
      {"id == 2 or loss < 1", std::nullopt},  {"not loss < 1", std::nullopt},
      {"not (loss < 1 and id == 2)", true},   {"id == 1", true}};
  for (const auto& [text, result] : cases) {
    SCOPED_TRACE(text);
    EXPECT_EQ(
        Filter::Parse(text, Context()).Decide([](const Comparison& comparison) {
          return comparison.field.name == "loss"
                     ? std::nullopt
                     : std::optional(comparison.Holds(1.0));
        }),
        result);
  }
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
  EXPECT_EQ(Filter::Parse("id * 2 < loss + id", Context()).Fields().size(), 2U);
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

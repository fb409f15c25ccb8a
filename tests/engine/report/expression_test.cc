#include "engine/report/expression.h"

#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class ExpressionTest : public testing::Test {
 protected:
  bool Holds(const std::string& text) const {
    return AllMet(ParseExpression(text, "--require"), lookup_);
  }

  std::map<std::string, FieldValue> fields_ = {{"loss", 0.1},
                                               {"accuracy", 0.9},
                                               {"state", "COMPLETED"},
                                               {"nan", kNaN},
                                               {"val loss", 2.0}};
  FieldLookup lookup_ =
      [this](const std::string& name) -> std::optional<FieldValue> {
    const auto found = fields_.find(name);
    if (found == fields_.end()) return std::nullopt;
    return found->second;
  };
};

TEST_F(ExpressionTest, ComparesNumbers) {
  EXPECT_TRUE(Holds("loss<=0.1"));
  EXPECT_TRUE(Holds("loss >= 1e-1"));
  EXPECT_TRUE(Holds("loss == .1"));
  EXPECT_TRUE(Holds("accuracy != 0.8"));
  EXPECT_FALSE(Holds("loss<0.1"));
  EXPECT_FALSE(Holds("accuracy>0.9"));
}

TEST_F(ExpressionTest, JoinsByAnd) {
  EXPECT_TRUE(Holds("loss<0.2 and accuracy>=0.9"));
  EXPECT_FALSE(Holds("loss<0.2 and accuracy>=0.95"));
  EXPECT_TRUE(Holds("loss<0.2 and accuracy>=0.9 AND state==COMPLETED"));
}

TEST_F(ExpressionTest, ComparesTextsIgnoringCase) {
  EXPECT_TRUE(Holds("state==completed"));
  EXPECT_TRUE(Holds("state != ERROR"));
  EXPECT_FALSE(Holds("state != 'COMPLETED'"));
}

TEST_F(ExpressionTest, TakesNamesInQuotes) {
  EXPECT_TRUE(Holds("'val loss' > 1"));
  EXPECT_TRUE(Holds("\"val loss\"<3"));
}

TEST_F(ExpressionTest, NanMeetsNoRequirement) {
  EXPECT_FALSE(Holds("nan<1"));
  EXPECT_FALSE(Holds("nan>=1"));
  EXPECT_FALSE(Holds("nan==nan"));
  EXPECT_TRUE(Holds("nan!=1"));
}

TEST_F(ExpressionTest, UnknownNameMeetsNoRequirement) {
  EXPECT_FALSE(Holds("los<1"));
  EXPECT_FALSE(Holds("los!=1"));
}

TEST_F(ExpressionTest, ReportsTheActualValue) {
  const auto comparisons = ParseExpression("accuracy >= 0.95", "--require");
  const Check check = Evaluate(comparisons.at(0), lookup_);
  EXPECT_FALSE(check.met);
  EXPECT_EQ(check.text, "accuracy >= 0.95");
  EXPECT_EQ(check.actual, "0.9");
}

class BadExpressionTest
    : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(BadExpressionTest, ReportsWhatIsExpectedAndWhere) {
  const auto& [text, expected] = GetParam();
  try {
    ParseExpression(text, "--require");
    FAIL() << "took " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find(expected), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Texts, BadExpressionTest,
    testing::Values(
        std::pair("", "expected a name at character 1"),
        std::pair("loss", "expected one of >= <= < > == != at character 5"),
        std::pair("loss=1", "expected one of >= <= < > == != at character 5"),
        std::pair("loss<", "expected a value at character 6"),
        std::pair("loss<small", "expected a number"),
        std::pair("loss<1 or x<2", "expected 'and' at character 8"),
        std::pair("loss<1 and", "expected a name at character 11"),
        std::pair("'loss<1", "expected a closing quote at character 1")));

}  // namespace
}  // namespace dtrain

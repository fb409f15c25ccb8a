#include "engine/base/deadlines.h"

#include <string>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using std::chrono::seconds;

class DeadlinesTest : public testing::Test {
 protected:
  Deadlines<std::string> deadlines_;
};

TEST_F(DeadlinesTest, NothingIsDueAtFirst) {
  EXPECT_EQ(deadlines_.next(), std::nullopt);
  EXPECT_EQ(deadlines_.Pop(seconds(1000)), std::nullopt);
}

TEST_F(DeadlinesTest, KeysComeInTheOrderOfTheirTimes) {
  deadlines_.Set("late", seconds(9));
  deadlines_.Set("early", seconds(3));

  EXPECT_EQ(deadlines_.next(), seconds(3));
  EXPECT_EQ(deadlines_.Pop(seconds(2)), std::nullopt) << "too early";
  EXPECT_EQ(deadlines_.Pop(seconds(9)), "early");
  EXPECT_EQ(deadlines_.Pop(seconds(9)), "late");
  EXPECT_EQ(deadlines_.Pop(seconds(9)), std::nullopt) << "each only once";
}

TEST_F(DeadlinesTest, ATimeIsReplacedOrRemoved) {
  deadlines_.Set("a", seconds(3));
  deadlines_.Set("b", seconds(4));

  deadlines_.Set("a", seconds(5));
  EXPECT_EQ(deadlines_.next(), seconds(4));
  deadlines_.Set("b", std::nullopt);
  EXPECT_EQ(deadlines_.next(), seconds(5));
  EXPECT_EQ(deadlines_.Pop(seconds(5)), "a");
  EXPECT_EQ(deadlines_.next(), std::nullopt);
}

TEST_F(DeadlinesTest, TwoKeysMayHaveOneTime) {
  deadlines_.Set("a", seconds(3));
  deadlines_.Set("b", seconds(3));

  EXPECT_EQ(deadlines_.Pop(seconds(3)), "a");
  EXPECT_EQ(deadlines_.Pop(seconds(3)), "b");
}

}  // namespace
}  // namespace dtrain

#include "engine/run/trial_table.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class TrialTableTest : public testing::Test {
 protected:
  TrialTableTest() {
    trial_ = table_.Add({.id = {1, 1}});
    other_ = table_.Add({.id = {1, 2}});
  }

  TrialTable table_;
  TrialState* trial_ = nullptr;
  TrialState* other_ = nullptr;
};

TEST_F(TrialTableTest, OnlyCountsTrialsThatHaveEnded) {
  EXPECT_EQ(table_.Add({.id = {1, 3}, .state = State::kStopped}), nullptr);

  EXPECT_EQ(table_.created(), 3);
  EXPECT_EQ(table_.ended(), 1);
  EXPECT_EQ(table_.Find(3), nullptr);
}

TEST_F(TrialTableTest, GivesTurnsInTheOrderOfTheOperations) {
  table_.Give(Started{}, ValidateAfter{.trial = 1, .length = 10});
  table_.Give(Started{}, ValidateAfter{.trial = 0, .length = 10});

  EXPECT_LT(other_->turn, trial_->turn);
  EXPECT_THAT(trial_->operations, ElementsAre(10));
}

TEST_F(TrialTableTest, LetsATrialThatGoesOnKeepItsTurn) {
  table_.Give(Started{}, ValidateAfter{.trial = 0, .length = 10});
  table_.Give(Started{}, ValidateAfter{.trial = 1, .length = 10});
  const ValidationCompleted done{.trial = 0, .length = 10, .metric = 1};
  table_.Take(done);

  table_.Give(done, ValidateAfter{.trial = 0, .length = 30});

  EXPECT_LT(trial_->turn, other_->turn);
}

TEST_F(TrialTableTest, QueuesATrialAnewThatAnotherOnesResultPromotes) {
  table_.Give(Started{}, ValidateAfter{.trial = 0, .length = 10});
  table_.Give(Started{}, ValidateAfter{.trial = 1, .length = 10});
  table_.Take(ValidationCompleted{.trial = 0, .length = 10, .metric = 1});
  const ValidationCompleted done{.trial = 1, .length = 10, .metric = 2};
  table_.Take(done);

  table_.Give(done, ValidateAfter{.trial = 0, .length = 30});

  EXPECT_GT(trial_->turn, other_->turn);
}

TEST_F(TrialTableTest, CountsCompletedOperations) {
  table_.Give(Started{}, ValidateAfter{.trial = 0, .length = 10});

  table_.Take(ValidationCompleted{.trial = 0, .length = 10, .metric = NAN});

  EXPECT_EQ(trial_->row.rung, 1);
  EXPECT_EQ(trial_->trained(), 10);
  EXPECT_THAT(trial_->operations, IsEmpty());
  EXPECT_TRUE(trial_->bad_metric.has_value());
}

TEST_F(TrialTableTest, GivesNoMoreWorkToATrialThatLeft) {
  table_.Give(Started{}, ValidateAfter{.trial = 0, .length = 10});
  table_.Take(ExitedEarly{.trial = 0, .reason = ExitReason::kUserStop});

  EXPECT_EQ(table_.Give(Started{}, ValidateAfter{.trial = 0, .length = 30}),
            nullptr);
  EXPECT_TRUE(trial_->close_requested);
  EXPECT_THAT(trial_->operations, IsEmpty());
}

TEST_F(TrialTableTest, KeepsThoseWithAProcessApart) {
  table_.StartProcess(*other_);
  EXPECT_THAT(table_.live(), ElementsAre(testing::Pair(2, other_)));

  EXPECT_NE(table_.EndProcess(*other_), nullptr);
  EXPECT_THAT(table_.live(), IsEmpty());
}

TEST_F(TrialTableTest, FindsNoTrialThatHasEnded) {
  table_.End(*trial_);
  EXPECT_TRUE(trial_->ended);
  EXPECT_EQ(table_.Find(1), nullptr);
  EXPECT_EQ(table_.ended(), 1);

  table_.Sweep();
  EXPECT_EQ(table_.trials().size(), 1u);
}

}  // namespace
}  // namespace dtrain

#include "engine/store/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

TEST(StateTest, NamesRoundTrip) {
  EXPECT_EQ(StateName(State::kPending), "PENDING");
  EXPECT_EQ(StateName(State::kInterrupted), "INTERRUPTED");
  EXPECT_EQ(StateName(State::kStopped), "STOPPED");
  EXPECT_EQ(StateName(State::kInvalid), "INVALID");
  EXPECT_EQ(StateFromName("PAUSED"), State::kPaused);
  EXPECT_EQ(StateFromName("ERROR"), State::kError);
}

TEST(StateTest, UnknownNamesAreRefusedWithTheKnownOnes) {
  try {
    StateFromName("running");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), testing::HasSubstr("PENDING, RUNNING"));
  }
}

TEST(StateTest, OnlyEndsAreFinal) {
  EXPECT_TRUE(IsFinal(State::kCompleted));
  EXPECT_TRUE(IsFinal(State::kCanceled));
  EXPECT_TRUE(IsFinal(State::kError));
  EXPECT_TRUE(IsFinal(State::kStopped));
  EXPECT_TRUE(IsFinal(State::kInvalid));
  EXPECT_FALSE(IsFinal(State::kPending));
  EXPECT_FALSE(IsFinal(State::kRunning));
  EXPECT_FALSE(IsFinal(State::kPaused));
  EXPECT_FALSE(IsFinal(State::kInterrupted));
}

}  // namespace

}  // namespace dtrain

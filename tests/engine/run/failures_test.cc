#include "engine/run/failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::HasSubstr;

TEST(HaveOneCauseTest, IgnoresWordsWithDigits) {
  struct Case {
    const char* first;
    const char* second;
    bool alike;
  };
  for (const Case& it :
       {Case{"loss 1.5e-3 at 0x7f3a", "loss 2.5e+4 at 0x11", true},
        Case{"no module torch", "no module numpy", false},
        Case{"trial_1 failed", "trial_2 failed", true},
        Case{"exited with code 1", "exited with code 1: boom", false},
        Case{"1.5.", "2.5.", true}, Case{"", "", true}}) {
    EXPECT_EQ(HaveOneCause(it.first, it.second), it.alike) << it.first;
  }
}

TEST(MayPassTest, KnowsCausesThatMayPass) {
  for (const char* text :
       {"exited with code 1: RuntimeError: CUDA out of memory",
        "OSError: [Errno 98] Address already in use",
        "requests.exceptions.HTTPError: 503 Server Error",
        "sqlite3.OperationalError: database is locked"}) {
    EXPECT_TRUE(MayPass(text)) << text;
  }
  for (const char* text :
       {"ModuleNotFoundError: No module named 'torch'",
        "the program ended at 1 of 3 epochs without …: CUDA is not used"}) {
    EXPECT_FALSE(MayPass(text)) << text;
  }
}

TEST(RestartDelayTest, DoublesUpToAMinute) {
  using std::chrono::milliseconds;
  EXPECT_EQ(RestartDelay(1), milliseconds(100));
  EXPECT_EQ(RestartDelay(4), milliseconds(800));
  EXPECT_EQ(RestartDelay(1, /*may_pass=*/true), milliseconds(1000));
  EXPECT_EQ(RestartDelay(50), milliseconds(51200));
  EXPECT_EQ(RestartDelay(50, /*may_pass=*/true), std::chrono::minutes(1));
}

TrialRow Failed(std::int64_t number, const std::string& reason,
                State state = State::kError) {
  TrialRow row;
  row.id = {3, number};
  row.state = state;
  row.reason = reason;
  return row;
}

class FailuresTest : public testing::Test {
 protected:
  std::string CountEarly(std::int64_t number, const std::string& reason) {
    return failures_.CountEarly(Failed(number, reason), "boom", number);
  }

  Failures failures_;
};

TEST_F(FailuresTest, ThreeInARowForOneCauseBeforeAnyReportEndTheExperiment) {
  EXPECT_EQ(CountEarly(1, "code 1: boom"), "");
  EXPECT_EQ(CountEarly(2, "another cause"), "");
  EXPECT_EQ(CountEarly(3, "code 2: boom"), "");
  EXPECT_EQ(CountEarly(4, "code 3: boom"), "");
  EXPECT_EQ(CountEarly(5, "code 4: boom"),
            "3 of 5 trials failed before they reported: boom");
}

TEST_F(FailuresTest, AReportOfAnyTrialShowsThatTrialsCanTrain) {
  failures_.SetReported(/*measured=*/false);
  for (int i = 1; i <= 5; ++i) EXPECT_EQ(CountEarly(i, "boom"), "");
  EXPECT_FALSE(failures_.measured());
}

TEST_F(FailuresTest, EarlyOnesAreCountedAcrossRunners) {
  failures_.Recover(Failed(1, "boom"));
  failures_.Recover(Failed(2, "boom"));
  EXPECT_THAT(CountEarly(3, "boom"), HasSubstr("3 of 3 trials failed"));
  EXPECT_EQ(failures_.last_error(), "trial 3.2: boom");

  TrialRow trained = Failed(4, "boom");
  trained.batches = 10;
  failures_.Recover(trained);
  EXPECT_EQ(CountEarly(5, "boom"), "");
}

TEST_F(FailuresTest, InvalidOnesInARowEndTheExperimentAfterThePlannedNumber) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(failures_.CountInvalid("no", 5), "");
  EXPECT_THAT(failures_.CountInvalid("no", 5),
              HasSubstr("5 trials in a row have invalid hyperparameters"));

  failures_.SetReported(/*measured=*/true);
  EXPECT_EQ(failures_.CountInvalid("no", 1), "");
  EXPECT_EQ(failures_.CountInvalid("no", 1), "");
  EXPECT_NE(failures_.CountInvalid("no", 1), "");
}

TEST_F(FailuresTest, InvalidOnesAreCountedAcrossRunners) {
  failures_.Recover(Failed(1, "no", State::kInvalid));
  failures_.Recover(Failed(2, "no", State::kInvalid));
  EXPECT_NE(failures_.CountInvalid("no", 3), "");
}

TEST_F(FailuresTest, StartsAreTriedAgainFiveTimes) {
  for (int i = 1; i <= 5; ++i) {
    EXPECT_EQ(failures_.CountFailedStart(), RestartDelay(i));
  }
  EXPECT_EQ(failures_.CountFailedStart(), std::nullopt);
  failures_.SetStarted(1);
  EXPECT_EQ(failures_.CountFailedStart(), RestartDelay(1));
}

TEST_F(FailuresTest, LateOnesCountUntilTheTrialStartsAgain) {
  EXPECT_EQ(failures_.late(7), "");
  failures_.SetLate(7, "failed after its last validation");
  failures_.SetStarted(8);
  EXPECT_EQ(failures_.late(7), "failed after its last validation");
  failures_.SetStarted(7);
  EXPECT_EQ(failures_.late(7), "");
}

TEST_F(FailuresTest, LateOnesAreRecoveredFromTheReason) {
  failures_.Recover(Failed(
      7, "validation loss was nan; " + std::string(kFailedLate) + "no space",
      State::kPaused));
  EXPECT_EQ(failures_.late(7), std::string(kFailedLate) + "no space");
}

TEST_F(FailuresTest, LastErrorIsOfTrialsThatFailed) {
  failures_.SetEnded(Failed(1, "done", State::kCompleted));
  EXPECT_EQ(failures_.last_error(), "");
  failures_.SetEnded(Failed(2, "bad", State::kInvalid));
  EXPECT_EQ(failures_.last_error(), "trial 3.2: bad");
}

}  // namespace
}  // namespace dtrain

#include "engine/report/live_display.h"

#include <sstream>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using std::chrono::milliseconds;

class LiveDisplayTest : public testing::Test {
 protected:
  std::string Taken() {
    std::string text = out_.str();
    out_.str("");
    return text;
  }

  std::ostringstream out_;
  TerminalMode mode_{.terminal = true, .redraw = true, .width = 80};
  Duration now_{0};
  std::optional<LiveDisplay> display_{
      std::in_place, out_, [this] { return mode_; }, Verbosity::kNormal,
      Clock{.now = [] { return Timestamp(0); },
            .monotonic = [this] { return now_; }}};
};

TEST_F(LiveDisplayTest, DrawsAtMostTenTimesASecond) {
  display_->OnStatus({});
  EXPECT_TRUE(Taken().starts_with("\x1b[?25l"));
  now_ = milliseconds(50);
  display_->OnStatus({});
  EXPECT_EQ(Taken(), "");
  now_ = milliseconds(100);
  display_->OnStatus({});
  EXPECT_NE(Taken(), "");
}

TEST_F(LiveDisplayTest, DrawsInTheSamePlace) {
  display_->OnStatus({});
  Taken();
  now_ = milliseconds(100);
  display_->OnStatus({});
  EXPECT_TRUE(Taken().starts_with("\x1b[?25l\r\x1b[2A\x1b[J"));
}

TEST_F(LiveDisplayTest, ErasesLinesThatANarrowerTerminalWrapped) {
  display_->OnStatus({});
  Taken();
  mode_.width = 30;
  now_ = milliseconds(100);
  display_->OnStatus({});
  EXPECT_TRUE(Taken().starts_with("\x1b[?25l\r\x1b[4A\x1b[J"));
}

TEST_F(LiveDisplayTest, PrintsFailuresAboveTheFrame) {
  display_->OnStatus({});
  Taken();
  display_->OnTrialEnded({.id = {1, 1}, .state = State::kError}, {});
  EXPECT_EQ(Taken(), "\r\x1b[2A\x1b[J\x1b[?25h1.1 failed\n");
}

TEST_F(LiveDisplayTest, GivesTheCursorBackWhenItGoes) {
  display_->OnStatus({});
  Taken();
  display_.reset();
  EXPECT_EQ(Taken(), "\r\x1b[2A\x1b[J\x1b[?25h");
}

TEST_F(LiveDisplayTest, PrintsAResumedTrialButNoPromotion) {
  display_->OnTrialEnded({.id = {1, 1}, .state = State::kPaused}, {});
  display_->OnTrialStarted({.id = {1, 1}}, /*from_batches=*/9);
  EXPECT_EQ(Taken(), "");
  display_->OnTrialStarted({.id = {1, 2}}, /*from_batches=*/9);
  EXPECT_EQ(Taken(), "1.2 goes on from batch 9\n");
}

TEST_F(LiveDisplayTest, SaysThatATrialWaitsOnlyWhereNoSlotIsFree) {
  RunStatus status{.trials = 1, .waiting = 1, .slots = 1};
  display_->OnStatus(status);
  EXPECT_NE(Taken().find(", starting"), std::string::npos);
  status.slots_in_use = 1;
  now_ = milliseconds(100);
  display_->OnStatus(status);
  EXPECT_NE(Taken().find(", waiting for a slot"), std::string::npos);
}

TEST_F(LiveDisplayTest, SaysThatATrialWaitsWhereAnotherExperimentHasTheSlot) {
  const RunStatus status{.trials = 1, .waiting = 1, .slots = 1};
  display_->OnStatus(status);
  Taken();
  now_ = std::chrono::seconds(6);
  display_->OnStatus(status);
  EXPECT_NE(Taken().find(", waiting for a slot"), std::string::npos);
}

}  // namespace
}  // namespace dtrain

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

}  // namespace
}  // namespace dtrain

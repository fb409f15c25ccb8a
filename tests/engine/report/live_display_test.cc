#include "engine/report/live_display.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/text.h"

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

TEST_F(LiveDisplayTest, DrawsTheWorkersThatItWasTold) {
  display_->OnWorkers("none yet");
  display_->OnStatus({});
  EXPECT_NE(Taken().find("workers none yet"), std::string::npos);
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

TEST_F(LiveDisplayTest, RestoresTheCursorAtTheEnd) {
  display_->OnStatus({});
  Taken();
  display_.reset();
  EXPECT_EQ(Taken(), "\r\x1b[2A\x1b[J\x1b[?25h");
}

TEST_F(LiveDisplayTest, PrintsAResumedTrialButNoPromotion) {
  display_->OnTrialEnded({.id = {1, 1}, .state = State::kPaused}, {});
  display_->OnTrialStarted({.id = {1, 1}}, {.batches = 9});
  EXPECT_EQ(Taken(), "");
  display_->OnTrialStarted({.id = {1, 2}}, {.batches = 9});
  EXPECT_EQ(Taken(), "1.2 resumed from batch 9\n");
}

TEST_F(LiveDisplayTest, ReportsAWaitOnlyIfNoSlotIsFree) {
  RunStatus status{.trials = 1, .waiting = 1, .slots = 1};
  display_->OnStatus(status);
  EXPECT_NE(Taken().find(", starting"), std::string::npos);
  status.slots_in_use = 1;
  now_ = milliseconds(100);
  display_->OnStatus(status);
  EXPECT_NE(Taken().find(", waiting for a slot"), std::string::npos);
}

TEST_F(LiveDisplayTest, ReportsAWaitForAnotherExperimentsSlot) {
  const RunStatus status{.trials = 1, .waiting = 1, .slots = 1};
  display_->OnStatus(status);
  Taken();
  now_ = std::chrono::seconds(6);
  display_->OnStatus(status);
  EXPECT_NE(Taken().find(", waiting for a slot"), std::string::npos);
}

using std::chrono::seconds;

RunStatus At(std::int64_t batches) {
  return {.running = {{.id = {1, 1}, .batches = batches}}};
}

TEST(SpeedMeterTest, HasNoSpeedFromOneSample) {
  SpeedMeter meter;
  meter.Update(At(10), seconds(0));
  EXPECT_EQ(meter.BatchesPerSecond({1, 1}), 0);
}

TEST(SpeedMeterTest, MeasuresTheLastSeconds) {
  SpeedMeter meter;
  meter.Update(At(0), seconds(0));
  meter.Update(At(10), seconds(10));
  meter.Update(At(110), seconds(11));
  meter.Update(At(210), seconds(12));
  EXPECT_DOUBLE_EQ(meter.BatchesPerSecond({1, 1}), 100);
}

TEST(SpeedMeterTest, RestartsAfterATrialRestart) {
  SpeedMeter meter;
  meter.Update(At(100), seconds(0));
  meter.Update(At(50), seconds(1));
  meter.Update(At(60), seconds(2));
  EXPECT_DOUBLE_EQ(meter.BatchesPerSecond({1, 1}), 10);
}

TEST(SpeedMeterTest, ForgetsStoppedTrials) {
  SpeedMeter meter;
  meter.Update(At(0), seconds(0));
  meter.Update(At(5), seconds(1));
  meter.Update({}, seconds(2));
  EXPECT_EQ(meter.BatchesPerSecond({1, 1}), 0);
}

class LiveFrameTest : public testing::Test {
 protected:
  std::vector<std::string> Lines(std::size_t width, std::size_t height = 24,
                                 std::optional<double> left = std::nullopt,
                                 bool utf8 = true) {
    return FrameLines({info_, status_, speeds_, left},
                      {.utf8 = utf8, .width = width, .height = height});
  }

  RunInfo info_{.experiment = 3, .name = "digits", .metric = "accuracy"};
  RunStatus status_{.progress = 0.5,
                    .trials = 1,
                    .seconds = 41,
                    .running = {{.id = {3, 1},
                                 .batches = 500,
                                 .total_batches = 1000,
                                 .batches_per_epoch = 200,
                                 .training = {{"loss", 0.25}},
                                 .validation = {{"accuracy", 0.875}}}}};
  SpeedMeter speeds_;
};

TEST_F(LiveFrameTest, NarrowsTheBarBeforeItCutsANumber) {
  EXPECT_EQ(Lines(66, 24, /*left=*/44)[0],
            "experiment 3 digits  [##########..........] 50%  41s, 44s left");
  EXPECT_EQ(Lines(50, 24, /*left=*/44)[0],
            "experiment 3 digits  [###....] 50%  41s, 44s left");
  EXPECT_EQ(Lines(44, 24, /*left=*/44)[0],
            "experiment 3 digits  50%  41s, 44s left");
}

TEST_F(LiveFrameTest, ShowsExperimentTrialsAndBest) {
  status_.best = BestValidation{.value = 0.875, .batches = 400};
  status_.best_trial = 1;

  EXPECT_EQ(
      Lines(120, 24, /*left=*/44),
      (std::vector<std::string>{
          "experiment 3 digits  [##########..........] 50%  41s, 44s left",
          "  3.1  epoch 2.50  batch 500/1000  training: loss 0.25  validation: "
          "accuracy 0.875",
          "  best  3.1  accuracy 0.875 at batch 400"}));
}

// A trial without a validation set will never have one.
TEST_F(LiveFrameTest, DoesNotPromiseAValidation) {
  EXPECT_EQ(Lines(120).back(), "  best  no validation of accuracy so far");
}

TEST_F(LiveFrameTest, FitsEveryLineToTheTerminal) {
  const auto lines = Lines(40);
  ASSERT_EQ(lines.size(), 3);
  EXPECT_EQ(lines[1], "  3.1  epoch 2.50  batch 500/1000  …");
}

TEST_F(LiveFrameTest, FitsTheNumberOfTrialsToTheTerminal) {
  status_.running.assign(10, status_.running[0]);
  const auto lines = Lines(80, /*height=*/8);
  ASSERT_EQ(lines.size(), 7);
  EXPECT_EQ(lines[5], "  … and 6 more trials");
}

class SearchFrameTest : public LiveFrameTest {
 protected:
  SearchFrameTest() {
    info_.hyperparameters = {{"lr", {{"type", "log"}}}, {"batch", 32}};
    status_.trials = 20;
    status_.trials_ended = 12;
    status_.waiting = 3;
    status_.slots_in_use = 1;
    status_.slots = 2;
    status_.running[0].hparams = {{"lr", 0.0123456}, {"batch", 32}};
    status_.rungs = {{.length = {100}, .done = 12, .running = 2},
                     {.length = {300}, .done = 4},
                     {.length = {900}, .running = 1}};
    status_.best = BestValidation{.value = 0.875, .batches = 400};
    status_.best_trial = 7;
    status_.best_hparams = {{"lr", 0.1}, {"batch", 32}};
  }
};

TEST_F(SearchFrameTest, ShowsTrialsRungsAndTheBestHyperparameters) {
  const std::vector<std::string> lines = FrameLines(
      {.info = info_, .status = status_, .speeds = speeds_, .without_slot = 2},
      {.utf8 = true, .width = 120, .height = 24});
  EXPECT_EQ(
      lines,
      (std::vector<std::string>{
          "experiment 3 digits  [##########..........] 50%  41s",
          "  trials  1 running on 1/2 slots, 12 ended, 1 starting, 4 paused, "
          "2 waiting for a slot",
          "  rungs   100: 12 done, 2 running · 300: 4 done · 900: 1 "
          "running",
          "  3.1  batch 500/1000  accuracy 0.875  lr=0.01235  training: loss "
          "0.25",
          "  best    3.7  accuracy 0.875 at batch 400  lr=0.1 "
          "batch=32"}));
}

TEST_F(SearchFrameTest, ShowsTheWorkersBelowTheTrials) {
  const std::vector<std::string> lines =
      FrameLines({.info = info_,
                  .status = status_,
                  .speeds = speeds_,
                  .workers = "2 ready, 1 job pending (Resources)"},
                 {.width = 120, .height = 24});
  EXPECT_EQ(lines[2], "  workers 2 ready, 1 job pending (Resources)");
}

TEST_F(SearchFrameTest, ShowsConstantsOnlyIfTheyFit) {
  EXPECT_EQ(Lines(56).back(),
            "  best    3.7  accuracy 0.875 at batch 400  lr=0.1");
}

TEST_F(SearchFrameTest, ShowsTheUnitOfRungs) {
  status_.rungs = {{.length = {1, Unit::kEpochs}, .done = 2},
                   {.length = {3, Unit::kEpochs}}};
  EXPECT_EQ(Lines(80)[2], "  rungs   in epochs 1: 2 done · 3: -");
}

TEST_F(SearchFrameTest, ShortensRungsAndKeepsTheTopOnes) {
  EXPECT_EQ(RungsText(status_.rungs, 60, true),
            "100: 12 done, 2 running · 300: 4 done · 900: 1 running");
  EXPECT_EQ(RungsText(status_.rungs, 40, true),
            "100: 12+2 · 300: 4 · 900: 0+1");
  EXPECT_EQ(RungsText(status_.rungs, 24, true), "… · 300: 4 · 900: 0+1");
  EXPECT_EQ(RungsText(status_.rungs, 14, true), "… · 900: 0+1");
}

TEST_F(SearchFrameTest, HasOnlyAsciiWithoutUtf8) {
  info_.name = "a name of more than 24 characters";
  status_.running.assign(9, status_.running[0]);
  const auto lines = Lines(48, /*height=*/8, /*left=*/9, /*utf8=*/false);
  EXPECT_EQ(lines[0], "experiment 3 a name of ...  50%  41s, 9.0s left");
  EXPECT_EQ(lines[2], "  rungs   100: 12+2 | 300: 4 | 900: 0+1");
  EXPECT_EQ(lines[5], "  ... and 7 more trials");
  EXPECT_EQ(RungsText(status_.rungs, 25, false), "... | 300: 4 | 900: 0+1");
}

TEST_F(SearchFrameTest, DrawsTheCurveOfATrialIfItFits) {
  const auto line = [this](std::size_t width, std::vector<double> values,
                           bool utf8 = true) {
    return FrameLines({.info = info_,
                       .status = status_,
                       .speeds = speeds_,
                       .history = [&](TrialId) { return values; }},
                      {.utf8 = utf8, .width = width, .height = 24})[3];
  };
  EXPECT_THAT(line(100, {0.5, 0.75, 0.875}),
              testing::StartsWith(
                  "  3.1  batch 500/1000  accuracy 0.875  ▁▆█  lr=0.01235"));
  EXPECT_THAT(line(100, {0.5, 0.875}, /*utf8=*/false),
              testing::HasSubstr("accuracy 0.875  _^  lr"));
  EXPECT_THAT(line(100, {0.875}), testing::HasSubstr("0.875  lr"));
  EXPECT_THAT(line(54, {0.5, 0.75, 0.875}), testing::HasSubstr("0.875  lr"));
}

TEST_F(SearchFrameTest, ShowsARunWhoseSlotsAreUnknown) {
  status_.slots = status_.slots_in_use = 0;
  EXPECT_EQ(Lines(80)[1], "  trials  1 running, 12 ended, 3 pending, 4 paused");
  status_.trials = 1;
  status_.running.clear();
  status_.rungs.clear();
  EXPECT_THAT(Lines(80)[0], testing::EndsWith("41s, pending"));
}

TEST_F(SearchFrameTest, NamesTheStateOfAnExperimentThatDoesNotRun) {
  EXPECT_EQ(FrameLines({.info = info_,
                        .status = status_,
                        .speeds = speeds_,
                        .seconds_left = 9,
                        .state = "PAUSED"},
                       {.width = 80, .height = 2})[0],
            "experiment 3 digits  [##########..........] 50%  41s  PAUSED");
}

TEST_F(SearchFrameTest, StacksExperimentsOnATerminalOfAnyHeight) {
  const LiveFrame frame{.info = info_, .status = status_, .speeds = speeds_};
  const auto stacked = [&](std::size_t count, std::size_t height) {
    return StackedLines(std::vector(count, frame),
                        {.width = 80, .height = height});
  };
  EXPECT_EQ(stacked(2, 24).size(), 10);
  EXPECT_EQ(stacked(2, 8).size(), 7);
  EXPECT_THAT(stacked(3, 4),
              testing::Each(testing::StartsWith("experiment 3")));
  EXPECT_EQ(stacked(9, 4).size(), 3);
  EXPECT_EQ(stacked(9, 4).back(), "... and 7 more experiments");
  EXPECT_EQ(stacked(0, 4).size(), 0);
}

TEST_F(SearchFrameTest, StaysOnATerminalOfAnyHeight) {
  status_.running.assign(200, status_.running[0]);
  EXPECT_EQ(Lines(80, /*height=*/24).size(), 23);
  EXPECT_EQ(Lines(80, /*height=*/6).size(), 5);
  EXPECT_EQ(Lines(80, /*height=*/3).size(), 2);
  EXPECT_EQ(Lines(80, /*height=*/1).size(), 1);
}

TEST_F(LiveFrameTest, EscapesNames) {
  info_.name = "\x1b[2Jname";
  EXPECT_NE(Lines(80)[0].find("\\x1b[2Jname"), std::string::npos);
}

TEST_F(LiveFrameTest, FillsTheBarOnlyAtTheEnd) {
  EXPECT_EQ(ProgressBar(0, 7), "[.....]");
  EXPECT_EQ(ProgressBar(0.999, 7), "[####.]");
  EXPECT_EQ(ProgressBar(1, 7), "[#####]");
}

}  // namespace

}  // namespace dtrain

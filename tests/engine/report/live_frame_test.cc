#include "engine/report/live_frame.h"

#include <gtest/gtest.h>

#include "engine/base/text.h"

namespace dtrain {
namespace {

class LiveFrameTest : public testing::Test {
 protected:
  std::vector<std::string> Lines(std::size_t width, std::size_t height = 24,
                                 std::optional<double> left = std::nullopt) {
    return FrameLines({info_, status_, speeds_, left},
                      {.width = width, .height = height});
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

TEST_F(LiveFrameTest, FitsEveryLineToTheTerminal) {
  const auto lines = Lines(40);
  ASSERT_EQ(lines.size(), 3);
  EXPECT_EQ(lines[1], "  3.1  epoch 2.50  batch 500/1000  tra…");
  EXPECT_EQ(DisplayWidth(lines[1]), 39);
}

TEST_F(LiveFrameTest, FitsTheNumberOfTrialsToTheTerminal) {
  status_.running.assign(10, status_.running[0]);
  const auto lines = Lines(80, /*height=*/8);
  ASSERT_EQ(lines.size(), 7);
  EXPECT_EQ(lines[5], "  … and 6 more trials");
}

TEST_F(LiveFrameTest, ObeysNothingInNames) {
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

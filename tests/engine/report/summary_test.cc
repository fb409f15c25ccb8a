#include "engine/report/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

class SummaryTest : public testing::Test {
 protected:
  RunResult result_{.experiment = 3,
                    .best = BestValidation{.value = 0.9873,
                                           .batches = 2814,
                                           .checkpoint = "0a1b"},
                    .best_trial = 2,
                    .best_hparams = {{"lr", 0.01}, {"batch", 32}},
                    .seconds = 92};
  SummaryContext context_{
      .metric = "accuracy",
      .hyperparameters = {{"lr", {{"type", "log"}}}, {"batch", 32}},
      .command = "dtrain"};
};

TEST_F(SummaryTest, NamesTheBestTrialAndNextCommands) {
  EXPECT_EQ(SummaryText(result_, context_),
            "experiment 3 completed after 1m32s\n"
            "best trial 3.2: accuracy 0.9873 at batch 2814\n"
            "  hyperparameters  lr=0.01\n"
            "  checkpoint       0a1b\n"
            "next: dtrain trials 3; dtrain metrics 3; dtrain logs 3\n");
}

TEST_F(SummaryTest, SaysWhatWasIdle) {
  context_.use = "slots 62% in use, GPU 31% busy, CPU 1.2 cores";
  EXPECT_NE(SummaryText(result_, context_)
                .find("\nresources: slots 62% in use, GPU 31% busy, CPU 1.2 "
                      "cores\nnext: dtrain"),
            std::string::npos);
}

TEST_F(SummaryTest, ReportsThatTheBestHasNoCheckpoint) {
  result_.best->checkpoint.clear();
  EXPECT_NE(SummaryText(result_, context_)
                .find("  checkpoint       none for this validation; see dtrain "
                      "best 3\n"),
            std::string::npos);
}

TEST_F(SummaryTest, CountsTheTrialsOfASearch) {
  context_.trials = {
      {State::kCompleted, 5}, {State::kError, 1}, {State::kStopped, 10}};
  EXPECT_TRUE(SummaryText(result_, context_)
                  .starts_with("experiment 3 completed after 1m32s\n"
                               "16 trials: 5 completed, 1 failed, 10 stopped\n"
                               "best trial 3.2"));
}

TEST_F(SummaryTest, CountsKilledTrialsSeparately) {
  context_.trials = {{State::kCompleted, 2}, {State::kCanceled, 3}};
  context_.killed = 1;
  context_.best_state = State::kCanceled;
  EXPECT_TRUE(SummaryText(result_, context_)
                  .starts_with("experiment 3 completed after 1m32s\n"
                               "5 trials: 2 completed, 2 canceled, 1 killed\n"
                               "best trial 3.2 (killed later): accuracy"));
}

TEST_F(SummaryTest, ReportsThatNoTrialWasTrainedToTheEnd) {
  context_.trials = {{State::kStopped, 6}};
  context_.max_length = "9 epochs";
  EXPECT_THAT(SummaryText(result_, context_),
              testing::HasSubstr("\nno trial was trained to 9 epochs; continue "
                                 "the best one with: dtrain continue 3.2\n"));
}

TEST_F(SummaryTest, ReportsAPauseAtTheTimeLimit) {
  result_.state = State::kPaused;
  result_.timed_out = true;
  EXPECT_TRUE(
      SummaryText(result_, context_)
          .starts_with("experiment 3 paused at its time limit after 1m32s\n"));
}

TEST_F(SummaryTest, ReportsAPause) {
  result_.state = State::kPaused;
  result_.best.reset();
  context_.command = "dtrain --store s";
  EXPECT_EQ(SummaryText(result_, context_),
            "experiment 3 paused after 1m32s\n"
            "next: dtrain --store s trials 3; dtrain --store s metrics 3; "
            "dtrain --store s logs 3\n");
}

TEST_F(SummaryTest, ReportsTheReasonOfAFailure) {
  result_.state = State::kError;
  result_.error = "every trial\nfailed";
  EXPECT_TRUE(SummaryText(result_, context_)
                  .starts_with("experiment 3 failed after 1m32s: every "
                               "trial\\x0afailed\n"));
}

}  // namespace
}  // namespace dtrain

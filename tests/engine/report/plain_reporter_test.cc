#include "engine/report/plain_reporter.h"

#include <sstream>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

class PlainReporterTest : public testing::Test {
 protected:
  std::string Say(Verbosity verbosity) {
    std::ostringstream out;
    PlainReporter reporter(out, {}, verbosity);
    reporter.Begin({.experiment = 1, .searcher = "single"});
    out.str("");
    reporter.OnTraining({1, 1}, {.batches = 5});
    reporter.OnValidation({1, 1}, {.batches = 9, .metrics = {{"loss", 1}}},
                          /*best=*/false);
    reporter.OnNotice(LogLevel::kWarning, "one\nline");
    reporter.OnTrialEnded({.id = {1, 1}, .state = State::kError}, {"why"});
    return out.str();
  }
};

TEST_F(PlainReporterTest, SaysALineForEachEvent) {
  EXPECT_EQ(Say(Verbosity::kNormal),
            "1.1 validation at batch 9: loss 1\n"
            "dtrain: warning: one\\x0aline\n"
            "1.1 failed\n"
            "1.1 | why\n");
}

TEST_F(PlainReporterTest, SaysOnlyFailuresWhereItIsQuiet) {
  EXPECT_EQ(Say(Verbosity::kQuiet), "1.1 failed\n1.1 | why\n");
}

TEST_F(PlainReporterTest, SaysTrainingReportsWhereItIsVerbose) {
  EXPECT_TRUE(
      Say(Verbosity::kVerbose).starts_with("1.1 training at batch 5: \n"));
}

class SearchReporterTest : public testing::Test {
 protected:
  SearchReporterTest() {
    reporter_.Begin({.searcher = "async_halving", .metric = "loss"});
    out_.str("");
  }

  std::ostringstream out_;
  PlainReporter reporter_{out_, {}, Verbosity::kNormal};
};

TEST_F(SearchReporterTest, SaysOnlyTheBestValidations) {
  reporter_.OnValidation({1, 1}, {.batches = 9, .metrics = {{"loss", 1}}},
                         /*best=*/true);
  reporter_.OnValidation({1, 2}, {.batches = 9, .metrics = {{"loss", 2}}},
                         /*best=*/false);
  EXPECT_EQ(out_.str(), "1.1 validation at batch 9: loss 1 (best so far)\n");
}

TEST_F(SearchReporterTest, TellsAPromotionFromAnotherStart) {
  const TrialRow paused{.id = {1, 1},
                        .state = State::kPaused,
                        .batches = 9,
                        .rung = 1,
                        .latest = BestValidation{.value = 0.5, .batches = 9}};
  reporter_.OnTrialEnded(paused, {});
  reporter_.OnTrialStarted({.id = {1, 1}, .hparams = {{"lr", 0.1}}}, 9);
  reporter_.OnTrialStarted({.id = {1, 2}, .hparams = {{"lr", 0.2}}}, 9);
  EXPECT_EQ(
      out_.str(),
      "1.1 paused at batch 9, loss 0.5: its slot is free for another trial\n"
      "1.1 promoted, goes on from batch 9: lr=0.1\n"
      "1.2 goes on from batch 9: lr=0.2\n");
}

TEST_F(SearchReporterTest, TellsAtTheEndOfThePausedTrialsThatWereStopped) {
  reporter_.OnTrialEnded({.id = {1, 1}, .state = State::kPaused}, {});
  out_.str("");
  reporter_.OnTrialEnded({.id = {1, 1}, .state = State::kStopped}, {});
  EXPECT_EQ(out_.str(), "");
  reporter_.End({});
  EXPECT_EQ(out_.str(),
            "1 paused trial was not promoted to the end, and stopped\n");
}

}  // namespace
}  // namespace dtrain

#include "engine/report/plain_reporter.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/report/format.h"

namespace dtrain {
namespace {

class PlainReporterTest : public testing::Test {
 protected:
  std::string Print(Verbosity verbosity) {
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

TEST_F(PlainReporterTest, PrintsALineForEachEvent) {
  EXPECT_EQ(Print(Verbosity::kNormal),
            "1.1 validation at batch 9: loss 1\n"
            "dtrain: warning: one\\x0aline\n"
            "1.1 failed\n"
            "1.1 | why\n");
}

TEST_F(PlainReporterTest, PrintsOnlyFailuresWithQuiet) {
  EXPECT_EQ(Print(Verbosity::kQuiet), "1.1 failed\n1.1 | why\n");
}

TEST_F(PlainReporterTest, PrintsTrainingReportsWithVerbose) {
  EXPECT_TRUE(
      Print(Verbosity::kVerbose).starts_with("1.1 training at batch 5: \n"));
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

TEST_F(SearchReporterTest, PrintsOnlyTheBestValidations) {
  reporter_.OnValidation({1, 1}, {.batches = 9, .metrics = {{"loss", 1}}},
                         /*best=*/true);
  reporter_.OnValidation({1, 2}, {.batches = 9, .metrics = {{"loss", 2}}},
                         /*best=*/false);
  EXPECT_EQ(out_.str(), "1.1 validation at batch 9: loss 1 (best so far)\n");
}

TEST_F(SearchReporterTest, DistinguishesAPromotionFromAStart) {
  const TrialRow paused{.id = {1, 1},
                        .state = State::kPaused,
                        .batches = 9,
                        .rung = 1,
                        .latest = BestValidation{.value = 0.5, .batches = 9}};
  reporter_.OnTrialEnded(paused, {});
  reporter_.OnTrialStarted({.id = {1, 1}, .hparams = {{"lr", 0.1}}}, {9});
  reporter_.OnTrialStarted({.id = {1, 2}, .hparams = {{"lr", 0.2}}}, {9});
  EXPECT_EQ(out_.str(),
            "1.1 paused at batch 9, loss 0.5: its slot is released\n"
            "1.1 promoted, resumed from batch 9: lr=0.1\n"
            "1.2 resumed from batch 9: lr=0.2\n");
}

TEST_F(SearchReporterTest, ReportsStoppedPausedTrialsAtTheEnd) {
  reporter_.OnTrialEnded({.id = {1, 1}, .state = State::kPaused}, {});
  out_.str("");
  reporter_.OnTrialEnded({.id = {1, 1}, .state = State::kStopped}, {});
  EXPECT_EQ(out_.str(), "");
  reporter_.End({});
  EXPECT_EQ(out_.str(),
            "1 paused trial was not promoted further, and stopped\n");
}

TEST(EventTextTest, DescribesTheStartOfATrial) {
  const TrialRow trial{.id = {3, 1}, .hparams = {{"lr", 0.1}}};
  EXPECT_EQ(StartedLine({}, trial, StartKind::kStarted, {}),
            "3.1 started: lr=0.1");
  EXPECT_EQ(StartedLine({}, trial, StartKind::kResumed, {6000}),
            "3.1 resumed from batch 6000: lr=0.1");
  EXPECT_EQ(StartedLine({}, trial, StartKind::kPromoted, {300}),
            "3.1 promoted, resumed from batch 300: lr=0.1");
  EXPECT_EQ(StartedLine({}, trial, StartKind::kPromoted, {}),
            "3.1 promoted, runs again from its beginning: lr=0.1");
}

TEST(EventTextTest, NamesSearchedHyperparametersBriefly) {
  const RunInfo info{
      .hyperparameters = {{"lr", {{"type", "log"}}}, {"batch", 32}}};
  const TrialRow trial{.id = {3, 1},
                       .hparams = {{"lr", 0.0031622776601}, {"batch", 32}}};
  EXPECT_EQ(StartedLine(info, trial, StartKind::kStarted, {}),
            "3.1 started: lr=0.003162");
}

TEST(EventTextTest, DescribesTheResultAndEndOfATrial) {
  const RunInfo info{.searcher = "async_halving", .metric = "loss"};
  const TrialRow trial{.id = {3, 1},
                       .state = State::kStopped,
                       .reason = "stopped by the searcher",
                       .batches = 100,
                       .latest = BestValidation{.value = 0.25, .batches = 100}};
  const std::vector<std::string> expected = {
      "3.1 stopped at batch 100, loss 0.25: stopped by the searcher"};
  EXPECT_EQ(EndedLines(info, trial, {"bye"}), expected);
}

TEST(EventTextTest, DescribesAValidation) {
  const ValidationReport report{
      .batches = 937, .epoch = 1, .metrics = {{"loss", 0.25}}};
  EXPECT_EQ(ValidationLine({}, {3, 1}, report, /*best=*/true),
            "3.1 validation at batch 937 (epoch 1): loss 0.25 (best so far)");
}

TEST(EventTextTest, UsesTheUnitOfAProgram) {
  const ValidationReport report{
      .batches = 3, .epoch = 3, .metrics = {{"loss", 0.25}}};
  EXPECT_EQ(ValidationLine({.units = Units{.counted = Unit::kEpochs}}, {3, 1},
                           report, false),
            "3.1 validation at epoch 3: loss 0.25");
  EXPECT_EQ(
      EndedLines({.units = Units{.counted = Unit::kRecords}},
                 {.id = {3, 1}, .state = State::kPaused, .batches = 600}, {})
          .at(0),
      "3.1 paused at record 600");
}

TEST(EventTextTest, NamesPositionsInTheUnitOfTheSearch) {
  const RunInfo info{.searcher = "single",
                     .units = Units{.searched = Unit::kEpochs}};
  TrialRow trial{.id = {3, 1}, .state = State::kPaused, .batches = 150};
  EXPECT_EQ(EndedLines(info, trial, {}, /*epoch=*/1.5),
            std::vector<std::string>{"3.1 paused at epoch 1.5 (batch 150)"});
  EXPECT_EQ(EndedLines(info, trial, {}),
            std::vector<std::string>{"3.1 paused at batch 150"});
  trial.latest = BestValidation{.value = 0.5, .batches = 150, .epoch = 3};
  EXPECT_EQ(EndedLines(info, trial, {}),
            std::vector<std::string>{"3.1 paused at epoch 3 (batch 150)"});
  EXPECT_EQ(StartedLine(info, trial, StartKind::kResumed, {150, 3}),
            "3.1 resumed from epoch 3 (batch 150)");
  EXPECT_EQ(ValidationLine(info, {3, 1}, {.batches = 150, .epoch = 3},
                           /*best=*/false),
            "3.1 validation at epoch 3 (batch 150): ");
  EXPECT_THAT(CheckpointFailedText(info, {3, 1}, {.batches = 150}, {150, 3}),
              testing::HasSubstr("no checkpoint at epoch 3 (batch 150)"));
  EXPECT_EQ(FormatBest(trial.latest, info.units), "0.5 at epoch 3 (batch 150)");
}

TEST(EventTextTest, ReportsOnceThatTrialsWaitForSlots) {
  RunStatus status{.slot_wait = SlotWait{.slots = 2}};
  SlotWaitNotice notice;
  EXPECT_TRUE(notice.IsDue(status));
  EXPECT_FALSE(notice.IsDue(status));
  status.running.push_back({});
  EXPECT_FALSE(notice.IsDue(status));
  status.running.clear();
  EXPECT_TRUE(notice.IsDue(status));
}

TEST(EventTextTest, ShowsTheLogOfATrialThatFailed) {
  const TrialRow trial{
      .id = {3, 1}, .state = State::kError, .reason = "exit code 1"};
  const std::vector<std::string> expected = {"3.1 failed: exit code 1",
                                             "3.1 | cannot open\\x1b[2J data"};
  EXPECT_EQ(EndedLines({}, trial, {"cannot open\x1b[2J data"}), expected);
  EXPECT_TRUE(IsFailure(trial));
}

TEST(EventTextTest, CountsRestarts) {
  const TrialRow trial{.id = {3, 1},
                       .state = State::kRunning,
                       .reason = "signal 9",
                       .restarts = 2};
  EXPECT_EQ(EndedLines({}, trial, {}).at(0),
            "3.1 failed and restarts (restart 2): signal 9");
}

TEST(EventTextTest, OmitsTheLogOfASuccessfulTrial) {
  const TrialRow trial{
      .id = {3, 1}, .state = State::kCompleted, .batches = 100};
  const std::vector<std::string> expected = {"3.1 completed at batch 100"};
  EXPECT_EQ(EndedLines({}, trial, {"bye"}), expected);
  EXPECT_FALSE(IsFailure(trial));
}

}  // namespace

}  // namespace dtrain

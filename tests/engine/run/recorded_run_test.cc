#include "engine/run/recorded_run.h"

#include <cmath>

#include <gmock/gmock.h>

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Writes each event as a line.
class LineReporter : public Reporter {
 public:
  std::vector<std::string> Drain() { return std::exchange(lines_, {}); }

  void Begin(const RunInfo& info) override { lines_.push_back(info.name); }
  void OnNotice(LogLevel, const std::string& text) override {
    lines_.push_back(text);
  }
  void OnTrialStarted(const TrialRow& trial, const ReportedAt& from) override {
    lines_.push_back(ToString(trial.id) + " from " +
                     std::to_string(from.batches));
  }
  void OnTraining(TrialId trial, const TrainingReport& report) override {
    lines_.push_back(ToString(trial) + " trained " +
                     std::to_string(report.batches));
  }
  void OnValidation(TrialId trial, const ValidationReport& report,
                    bool best) override {
    lines_.push_back(ToString(trial) + " validated " +
                     std::to_string(report.batches) + (best ? " best" : ""));
  }
  void OnTrialEnded(const TrialRow& trial,
                    const std::vector<std::string>& last_lines) override {
    lines_.push_back(ToString(trial.id) + " " +
                     std::string(StateName(trial.state)) +
                     (last_lines.empty() ? "" : " " + last_lines[0]));
  }

 private:
  std::vector<std::string> lines_;
};

class RecordedRunTest : public testing::Test {
 protected:
  TrialRow& AddTrial(std::int64_t number, State state, std::int64_t runs) {
    TrialRow row{.id = {3, number}, .state = state, .runs = runs};
    if (state == State::kRunning) row.pid = 99;
    records_.trials.push_back(row);
    records_.experiment.trials = static_cast<std::int64_t>(number);
    return records_.trials.back();
  }
  void AddLoss(std::int64_t number, std::int64_t run, std::int64_t batches,
               double value, MetricKind kind = MetricKind::kValidation) {
    records_.metrics.push_back({.trial = {3, number},
                                .kind = kind,
                                .batches = batches,
                                .epoch = static_cast<double>(batches) / 50,
                                .name = "loss",
                                .value = value,
                                .time = Timestamp(++time_),
                                .run = run});
  }
  void AddEvent(const Event& event, const std::vector<Operation>& operations) {
    records_.events.push_back({.seq = ++seq_,
                               .event = ToJson(event),
                               .operations = ToJson(operations)});
  }
  std::vector<std::string> Apply() {
    run_.Apply(
        records_,
        {.last_lines =
             [](TrialId) { return std::vector<std::string>{"a traceback"}; },
         .checkpoint_at =
             [](const std::string&) { return ReportedAt{.batches = 100}; }},
        reporter_);
    records_.metrics.clear();
    records_.events.clear();
    return reporter_.Drain();
  }

  static ExperimentConfig Config() {
    ExperimentConfig config;
    config.searcher = {.name = "async_halving",
                       .metric = "loss",
                       .max_length = 400,
                       .max_trials = 8,
                       .num_rungs = 2};
    return config;
  }

  RunRecords records_{.experiment = {.id = 3,
                                     .name = "digits",
                                     .state = State::kRunning,
                                     .progress = 0.5,
                                     .searcher = "async_halving",
                                     .metric = "loss"}};
  LineReporter reporter_;
  std::int64_t time_ = 0;
  std::int64_t seq_ = 0;
  RecordedRun run_{records_.experiment, Config()};
};

TEST_F(RecordedRunTest, BeginsWithTheStateAndNotWithThePast) {
  AddTrial(1, State::kRunning, 1);
  AddTrial(2, State::kPending, 0);
  AddTrial(3, State::kStopped, 1);
  records_.experiment.trials_ended = 1;
  records_.experiment.best = BestValidation{.value = 0.25, .batches = 100};
  records_.experiment.best_trial = 3;
  AddLoss(1, 1, 100, 0.5);

  EXPECT_THAT(Apply(),
              ElementsAre("digits",
                          "experiment 3 is RUNNING: 1 trial runs, 1 pending, 1 "
                          "ended; best so far 3.3, loss 0.25 at batch 100"));
  EXPECT_THAT(Apply(), IsEmpty());
}

TEST_F(RecordedRunTest, ReportsStartsThenReportsByTimeThenEnds) {
  Apply();
  AddTrial(1, State::kRunning, 1);
  AddTrial(2, State::kStopped, 1);
  AddLoss(2, 1, 100, 0.5);
  AddLoss(1, 1, 90, 0.7, MetricKind::kTraining);
  AddLoss(1, 1, 100, 0.6);
  AddLoss(2, 1, 200, 0.4);

  EXPECT_THAT(Apply(),
              ElementsAre("3.1 from 0", "3.2 from 0", "3.2 validated 100 best",
                          "3.1 trained 90", "3.1 validated 100",
                          "3.2 validated 200 best", "3.2 STOPPED"));
}

TEST_F(RecordedRunTest, ReportsNothingTwice) {
  AddTrial(1, State::kRunning, 1);
  AddLoss(1, 1, 100, 0.5);
  Apply();
  AddLoss(1, 1, 100, 0.5);
  AddLoss(1, 1, 200, 0.6);

  EXPECT_THAT(Apply(), ElementsAre("3.1 validated 200"));
  EXPECT_EQ(run_.ReadUntil(records_.trials[0], MetricKind::kValidation), 200);
}

TEST_F(RecordedRunTest, ReportsARestartAndItsNewValuesOnly) {
  TrialRow& trial = AddTrial(1, State::kRunning, 1);
  trial.latest_checkpoint = "c";
  AddLoss(1, 1, 100, 0.5);
  AddLoss(1, 1, 200, 0.4);
  Apply();
  trial.runs = 2;
  trial.restarts = 1;
  EXPECT_EQ(run_.ReadUntil(trial, MetricKind::kValidation), -1);
  AddLoss(1, 1, 100, 0.5);
  AddLoss(1, 2, 150, 0.45);
  AddLoss(1, 1, 200, 0.4);

  EXPECT_THAT(Apply(), ElementsAre("3.1 RUNNING a traceback", "3.1 from 100",
                                   "3.1 validated 150"));
  EXPECT_THAT(run_.History({3, 1}), ElementsAre(0.5, 0.45, 0.4));
}

TEST_F(RecordedRunTest, ReportsAPauseThatNoReadSaw) {
  TrialRow& trial = AddTrial(1, State::kRunning, 1);
  Apply();
  trial.runs = 2;
  trial.latest_checkpoint = "c";

  EXPECT_THAT(Apply(), ElementsAre("3.1 PAUSED", "3.1 from 0"));
}

TEST_F(RecordedRunTest, ReportsThePromotionOfATrialThatHadBeenPaused) {
  TrialRow& trial = AddTrial(1, State::kPaused, 1);
  trial.latest_checkpoint = "c";
  Apply();
  EXPECT_FALSE(run_.MayHaveReports(trial));
  trial.state = State::kRunning;
  trial.pid = 7;
  trial.runs = 2;
  EXPECT_TRUE(run_.MayHaveReports(trial));
  AddLoss(1, 1, 100, 0.5);
  AddLoss(1, 2, 200, 0.4);

  EXPECT_THAT(Apply(), ElementsAre("3.1 from 100", "3.1 validated 200 best"));
  EXPECT_THAT(run_.History({3, 1}), ElementsAre(0.5, 0.4));
}

TEST_F(RecordedRunTest, ReportsAFailureWithTheLastLinesOnce) {
  TrialRow& trial = AddTrial(1, State::kRunning, 1);
  Apply();
  trial.state = State::kError;
  trial.pid = 0;
  EXPECT_THAT(Apply(), ElementsAre("3.1 ERROR a traceback"));
  EXPECT_THAT(Apply(), IsEmpty());
}

TEST_F(RecordedRunTest, NaNIsNeverTheBest) {
  AddTrial(1, State::kRunning, 1);
  Apply();
  AddLoss(1, 1, 100, std::nan(""));
  EXPECT_THAT(Apply(), ElementsAre("3.1 validated 100"));
}

TEST_F(RecordedRunTest, HasTheStatusOfTheRun) {
  AddEvent(Started{}, {ValidateAfter{0, 100}, ValidateAfter{1, 100}});
  AddEvent(ValidationCompleted{0, 100, 0.5}, {ValidateAfter{0, 400}});
  AddTrial(1, State::kRunning, 1).batches = 150;
  AddTrial(2, State::kPending, 0);
  AddLoss(1, 1, 160, 0.5);
  records_.seconds = 7;
  Apply();

  const RunStatus& status = run_.status();
  EXPECT_EQ(status.progress, 0.5);
  EXPECT_EQ(status.seconds, 7);
  EXPECT_EQ(status.trials, 2);
  EXPECT_EQ(status.waiting, 1);
  ASSERT_EQ(status.running.size(), 1);
  EXPECT_EQ(status.running[0].batches, 160);
  EXPECT_EQ(status.running[0].total_batches, 400);
  EXPECT_EQ(status.running[0].batches_per_epoch, 50);
  EXPECT_EQ(status.running[0].validation, (MetricValues{{"loss", 0.5}}));
  ASSERT_EQ(status.rungs.size(), 2);
  EXPECT_EQ(status.rungs[0].done, 1);
  EXPECT_EQ(status.rungs[1].running, 1);
}

TEST_F(RecordedRunTest, RefusesADamagedEvent) {
  records_.events = {{.seq = 1, .event = {{"event", "party"}}}};
  try {
    Apply();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kStore);
    EXPECT_THAT(error.what(), HasSubstr("dtrain doctor"));
  }
}

}  // namespace
}  // namespace dtrain

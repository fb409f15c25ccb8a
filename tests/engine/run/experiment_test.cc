#include "engine/run/experiment.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/unique_fd.h"
#include "tests/engine/run/experiment_fixture.h"
#include "tests/support/sync_count.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST_F(ExperimentTest, RunsATrialToItsEnd) {
  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kCompleted);
  EXPECT_EQ(result.best_trial, 1);
  EXPECT_EQ(result.best->value, 0.5);
  EXPECT_EQ(Trial().state, State::kCompleted);
  EXPECT_EQ(Trial().batches, 100);
  EXPECT_EQ(Trial().rung, 1);
  EXPECT_EQ(store_.Experiment(id_)->row.state, State::kCompleted);
  EXPECT_EQ(store_.Experiment(id_)->row.progress, 1);
}

// Measures and keeps a checkpoint at 50 batches and at 100.
class DirectionTest : public ExperimentTest {
 protected:
  void Measure(double at_50, double at_100) {
    config_.searcher.stops = {50};
    trials_.loss = [=](std::int64_t, std::int64_t batches) {
      return batches == 50 ? at_50 : at_100;
    };
  }
  std::vector<std::int64_t> Kept() const {
    std::vector<std::int64_t> batches;
    for (const CheckpointRow& row : store_.Checkpoints(id_)) {
      batches.push_back(row.batches);
    }
    return batches;
  }
};

TEST_F(DirectionTest, KeepsTheLargestIfLargerIsBetter) {
  config_.searcher.smaller_is_better = false;
  config_.checkpoints.save_trial_latest = 0;
  Measure(0.9, 0.5);

  const RunResult result = Run();

  EXPECT_EQ(result.best->value, 0.9);
  EXPECT_EQ(result.best->batches, 50);
  EXPECT_EQ(store_.Experiment(id_)->row.best->value, 0.9);
  EXPECT_EQ(Trial().best->value, 0.9);
  EXPECT_THAT(Kept(), ElementsAre(50));
}

TEST_F(DirectionTest, KeepsTheSmallestIfSmallerIsBetter) {
  config_.checkpoints.save_trial_latest = 0;
  Measure(0.5, 0.9);

  const RunResult result = Run();

  EXPECT_EQ(result.best->value, 0.5);
  EXPECT_EQ(store_.Experiment(id_)->row.best->value, 0.5);
  EXPECT_THAT(Kept(), ElementsAre(50));
}

TEST_F(DirectionTest, KeepsTheBestOfTheWholeExperimentToo) {
  config_.searcher.smaller_is_better = false;
  config_.checkpoints = {
      .save_experiment_best = 1, .save_trial_best = 0, .save_trial_latest = 0};
  Measure(0.9, 0.5);

  (void)Run();

  EXPECT_THAT(Kept(), ElementsAre(50));
}

TEST_F(DirectionTest, IsPassedToTheTrial) {
  config_.searcher.smaller_is_better = false;
  config_.training.scheduling_unit = 7;

  (void)Run();

  const TrialSpec& spec = launcher_.started().at(0);
  EXPECT_FALSE(spec.settings.smaller_is_better);
  EXPECT_EQ(spec.settings.searcher_metric, "loss");
  EXPECT_EQ(spec.settings.scheduling_unit, 7);
}

// Records that must survive a power cut: each waits for the disk before it is
// acknowledged.
TEST_F(ExperimentTest, WaitsForTheDiskAtACheckpointAndAtTheEnd) {
  const TemporaryDirectory directory;
  store_ = Store::OpenForWriting(StoreLayout(directory.path() / "store"));
  Record();
  std::vector<int> syncs;
  const auto note = [&] { syncs.push_back(SyncCount()); };
  launcher_.one_at_a_time = true;
  launcher_.on_start = [&](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    launcher_.Report(
        spec.id,
        TrainingReport{.seq = 1, .batches = 50, .metrics = {{"loss", 1.0}}});
  };
  launcher_.on_send = [&](TrialId trial, const RunnerMessage& message) {
    if (const auto* ack = std::get_if<Acknowledge>(&message)) {
      note();
      if (ack->seq == 1) {
        launcher_.Report(
            trial,
            CheckpointSaved{.seq = 2,
                            .uuid = "aaaaaaaa-0000-4000-8000-000000000000",
                            .batches = 50});
      } else if (ack->seq == 2) {
        trials_.End(trial, EndReason::kInvalidHp);
      }
    }
  };

  EXPECT_EQ(Run().state, State::kError);
  note();

  // At the report, at the checkpoint, after the trial's and the whole's end.
  ASSERT_EQ(syncs.size(), 3u);
  EXPECT_GE(syncs[1] - syncs[0], 1);
  EXPECT_GE(syncs[2] - syncs[1], 2);
}

TEST_F(ExperimentTest, GivesAdviceOnceAtTheStart) {
  advice_ = "start the daemon";
  (void)Run();

  EXPECT_THAT(reporter_.notices, testing::ElementsAre("start the daemon"));
}

TEST_F(ExperimentTest, PrintsNothingWithoutAdvice) {
  (void)Run();

  EXPECT_THAT(reporter_.notices, testing::IsEmpty());
}

TEST_F(ExperimentTest, RecordsEveryMetric) {
  (void)Run();

  std::vector<std::string> rows;
  store_.ForEachMetric({.experiment = id_}, [&](const MetricRow& row) {
    rows.push_back(row.name + "=" + std::to_string(row.value));
  });
  EXPECT_THAT(rows, testing::UnorderedElementsAre(
                        "loss=1.500000", "loss=0.500000", "acc=0.900000"));
}

TEST_F(ExperimentTest, AcknowledgesAndCloses) {
  (void)Run();

  EXPECT_EQ(launcher_.calls().front(), "start 1.1");
  EXPECT_THAT(launcher_.calls(), Contains(HasSubstr("\"ack\",\"seq\":4}")))
      << "the last of its four messages";
  EXPECT_THAT(launcher_.calls(),
              Not(Contains(HasSubstr("\"ack\",\"seq\":5}"))));
  EXPECT_THAT(launcher_.calls(), Contains(HasSubstr("close")));
}

TEST_F(ExperimentTest, AcknowledgesOnlyRecordedReports) {
  const auto root =
      std::filesystem::temp_directory_path() / "dtrain_experiment_test";
  std::filesystem::remove_all(root);
  store_ = Store::OpenForWriting(StoreLayout(root));
  Record();
  const UniqueFd lock(::open(store_.layout().WriteLock().c_str(), O_RDWR));
  Experiment experiment = Make();
  int waits = 0;
  launcher_.on_wait = [&] {
    if (++waits == 1) {
      ASSERT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);
    }
    if (waits == 50) {
      EXPECT_THAT(launcher_.calls(), Not(Contains(HasSubstr("\"ack"))));
      EXPECT_EQ(::flock(lock.get(), LOCK_UN), 0);
    }
  };

  EXPECT_EQ(experiment.Run().state, State::kCompleted);
  EXPECT_GT(waits, 50);
  std::filesystem::remove_all(root);
}

TEST_F(ExperimentTest, NeverCountsNanAsBest) {
  trials_.metrics = {{"loss", std::numeric_limits<double>::quiet_NaN()}};

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kCompleted);
  EXPECT_FALSE(result.best.has_value());
  EXPECT_TRUE(std::isnan(Trial().latest->value));
}

TEST_F(ExperimentTest, PausesWhenInterrupted) {
  trials_.silent = true;
  launcher_.Push(Interrupted{.signal = 2});

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kPaused);
  EXPECT_EQ(result.signal, 2);
  EXPECT_THAT(launcher_.calls(), Contains("stop 1.1"));
  EXPECT_EQ(Trial().state, State::kPaused);
  EXPECT_EQ(Trial().reason, "stopped by SIGINT");
  EXPECT_EQ(store_.Experiment(id_)->row.state, State::kPaused);
}

TEST_F(ExperimentTest, KillsWhenInterruptedTwice) {
  trials_.silent = true;
  launcher_.on_stop = [](TrialId) {};
  launcher_.Push(Interrupted{.signal = 2});
  launcher_.Push(Interrupted{.signal = 2});

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kPaused);
  EXPECT_THAT(launcher_.calls(), Contains("abort"));
}

TEST_F(ExperimentTest, ResumesAfterAPause) {
  trials_.silent = true;
  launcher_.Push(Interrupted{.signal = 15});
  (void)Run();
  trials_.silent = false;

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kCompleted);
  EXPECT_EQ(launcher_.started().size(), 2u);
  EXPECT_EQ(launcher_.started()[1].run, 1);
  EXPECT_EQ(Trial().reason, "");
  EXPECT_EQ(store_.SearcherEvents(id_, 0).size(), 4u);
}

TEST_F(ExperimentTest, CountsTheSecondsOfItsEarlierRuns) {
  trials_.silent = true;
  timeout_ = std::chrono::seconds(30);
  const RunResult first = Run();
  trials_.silent = false;
  const Duration before = time_;

  const RunResult second = Run();

  EXPECT_GE(first.seconds, 30);
  EXPECT_EQ(second.state, State::kCompleted);
  EXPECT_NEAR(
      second.seconds,
      first.seconds + std::chrono::duration<double>(time_ - before).count(), 2);
}

TEST_F(ExperimentTest, ResumesFromTheLatestCheckpoint) {
  config_.max_restarts = 1;
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    if (spec.run > 0) {
      launcher_.Report(spec.id, OperationCompleted{.seq = 1,
                                                   .length = *spec.until,
                                                   .batches = 100,
                                                   .metrics = trials_.metrics});
      return;
    }
    launcher_.Report(
        spec.id, CheckpointSaved{.seq = 1, .uuid = "aaaa-40", .batches = 40});
    launcher_.Report(
        spec.id,
        TrainingReport{.seq = 2, .batches = 60, .metrics = {{"loss", 2}}});
    launcher_.Exit(spec.id, 1);
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(launcher_.started().at(1).restore, "aaaa-40");
  int rows = 0;
  store_.ForEachMetric({.experiment = id_}, [&](const MetricRow&) { ++rows; });
  EXPECT_EQ(rows, 0) << "the second run did not measure it again";
  store_.ForEachMetric({.experiment = id_, .superseded = true},
                       [&](const MetricRow& row) { rows += row.superseded; });
  EXPECT_EQ(rows, 1) << "it stays in the record";
}

// A trial that validates every 20 batches, saves a checkpoint at 40, and fails
// after 80; its next run resumes from 40 and gets as far as a test lets it.
class RestartedTrialTest : public ExperimentTest {
 protected:
  RestartedTrialTest() {
    config_.max_restarts = 1;
    launcher_.on_start = [this](const TrialSpec& spec) {
      launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
      if (spec.run > 0) return second_run_(spec);
      for (const std::int64_t batches : {20, 40, 60, 80}) {
        Validate(spec, batches, 1.0 / static_cast<double>(batches));
        if (batches == 40) {
          launcher_.Report(
              spec.id,
              CheckpointSaved{.seq = 3, .uuid = "aaaa-40", .batches = 40});
        }
      }
      launcher_.Exit(spec.id, 1);
    };
  }

  void Validate(const TrialSpec& spec, std::int64_t batches, double loss) {
    launcher_.Report(spec.id, ValidationReport{.seq = batches,
                                               .batches = batches,
                                               .metrics = {{"loss", loss}}});
  }
  void Complete(const TrialSpec& spec, double loss) {
    Validate(spec, 100, loss);
    launcher_.Report(spec.id, OperationCompleted{.seq = 101,
                                                 .length = *spec.until,
                                                 .batches = 100,
                                                 .metrics = {{"loss", loss}}});
  }
  // "batches:value" of each value that counts.
  std::vector<std::string> Values() {
    std::vector<std::string> values;
    store_.ForEachMetric({.experiment = id_}, [&](const MetricRow& row) {
      values.push_back(std::to_string(row.batches) + ":" +
                       FormatNumber(row.value));
    });
    return values;
  }

  std::function<void(const TrialSpec&)> second_run_;
};

TEST_F(RestartedTrialTest, CancelBeforeItCatchesUpLosesNothing) {
  second_run_ = [this](const TrialSpec&) {
    launcher_.Push(Interrupted{.signal = 2});
  };

  EXPECT_EQ(Run().state, State::kPaused);

  EXPECT_THAT(Values(), ElementsAre("20:0.05", "40:0.025",
                                    "60:0.016666666666666666", "80:0.0125"));
  EXPECT_EQ(Trial().batches, 80);
  EXPECT_EQ(Trial().best->batches, 80);
  EXPECT_EQ(Trial().latest->batches, 80);
  EXPECT_EQ(store_.Experiment(id_)->row.best->batches, 80);
}

TEST_F(RestartedTrialTest, ReplacesRepeatedValidations) {
  second_run_ = [this](const TrialSpec& spec) {
    Validate(spec, 60, 0.5);
    Validate(spec, 80, 0.5);
    Complete(spec, 0.4);
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_THAT(Values(), ElementsAre("20:0.05", "40:0.025", "60:0.5", "80:0.5",
                                    "100:0.4"));
  EXPECT_EQ(Trial().best->batches, 40) << "the value at 80 is no more";
  EXPECT_EQ(Trial().latest->batches, 100);
  EXPECT_EQ(reporter_.status.best->batches, 40);
}

TEST_F(RestartedTrialTest, ReplacesABestThatItMeasuresAgain) {
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    Validate(spec, 1, spec.run == 0 ? 0.01 : 0.5);
    if (spec.run == 0) return launcher_.Exit(spec.id, 1);
    launcher_.Push(Interrupted{.signal = 2});
  };

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kPaused);
  EXPECT_EQ(result.best->value, 0.5);
  EXPECT_EQ(Trial().best->value, 0.5);
}

TEST_F(RestartedTrialTest, SupersedesEarlierValuesThatItPassed) {
  second_run_ = [this](const TrialSpec& spec) {
    Validate(spec, 70, 0.5);
    launcher_.Push(Interrupted{.signal = 2});
  };

  EXPECT_EQ(Run().state, State::kPaused);

  EXPECT_THAT(Values(),
              ElementsAre("20:0.05", "40:0.025", "70:0.5", "80:0.0125"));
  EXPECT_EQ(Trial().batches, 80);
}

TEST_F(RestartedTrialTest, SupersedesTheRestIfItEndsEarlier) {
  second_run_ = [this](const TrialSpec& spec) {
    Validate(spec, 60, 0.5);
    launcher_.Report(spec.id, Finished{.reason = EndReason::kUserStop});
    launcher_.Exit(spec.id);
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_THAT(Values(), ElementsAre("20:0.05", "40:0.025", "60:0.5"));
  EXPECT_EQ(Trial().batches, 60);
  EXPECT_EQ(Trial().best->batches, 40);
  EXPECT_EQ(Trial().best->checkpoint, "aaaa-40");
  EXPECT_EQ(Trial().latest->batches, 60);
}

TEST_F(RestartedTrialTest, ReportsItsCurrentProgress) {
  second_run_ = [this](const TrialSpec& spec) {
    Validate(spec, 60, 0.5);
    launcher_.Push(Interrupted{.signal = 2});
  };

  EXPECT_EQ(Run().state, State::kPaused);

  EXPECT_EQ(reporter_.ended.back().batches, 60);
}

TEST_F(ExperimentTest, AcceptsRepeatedReports) {
  config_.max_restarts = 1;
  const ValidationReport old{.seq = 1, .batches = 20, .metrics = {{"loss", 9}}};
  const CheckpointSaved before{.seq = 2, .uuid = "aaaa-20", .batches = 20};
  launcher_.on_start = [&](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    launcher_.Report(spec.id, old);
    launcher_.Report(spec.id, before);
    if (spec.run > 0) return;  // it trains on
    launcher_.Report(
        spec.id,
        ValidationReport{.seq = 3, .batches = 40, .metrics = {{"loss", 1}}});
    launcher_.Report(
        spec.id, CheckpointSaved{.seq = 4, .uuid = "aaaa-40", .batches = 40});
    launcher_.Exit(spec.id, 1);
  };
  launcher_.on_wait = [this, waits = 0]() mutable {
    if (++waits == 60) launcher_.Push(Interrupted{.signal = 2});
  };

  EXPECT_EQ(Run().state, State::kPaused);

  EXPECT_EQ(launcher_.started().at(1).restore, "aaaa-40");
  EXPECT_EQ(Trial().batches, 40);
  EXPECT_EQ(Trial().latest->batches, 40);
  EXPECT_EQ(Trial().latest_checkpoint, "aaaa-40");
}

TEST_F(ExperimentTest, PausesAtItsTimeLimit) {
  trials_.silent = true;
  timeout_ = std::chrono::seconds(3);

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kPaused);
  EXPECT_TRUE(result.timed_out);
}

TEST_F(ExperimentTest, RefusesASearchThatDiffersFromItsRecord) {
  store_.Write([this](StoreWriter& writer) {
    writer.AddSearcherEvent(id_, {.seq = 1,
                                  .event = {{"event", "started"}},
                                  .operations = nlohmann::json::array()});
  });

  EXPECT_THROW(Run(), Error);
}

TEST_F(ExperimentTest, DoesNotWaitForMissingTrials) {
  (void)Run();
  const SearcherEventRow started = store_.SearcherEvents(id_, 0).front();
  Record();
  store_.Write(
      [&](StoreWriter& writer) { writer.AddSearcherEvent(id_, started); });

  EXPECT_THROW(Run(), Error);
}

}  // namespace
}  // namespace dtrain

#include "engine/run/experiment.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>

#include <fcntl.h>
#include <sys/file.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/fake_launcher.h"
#include "tests/support/scripted_trials.h"

namespace dtrain {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class RecordingReporter : public Reporter {
 public:
  void OnTrialEnded(const TrialRow& row,
                    const std::vector<std::string>& lines) override {
    ended.push_back(row);
    last_lines = lines;
  }
  void OnNotice(LogLevel, const std::string& text) override {
    notices.push_back(text);
  }

  std::vector<TrialRow> ended;
  std::vector<std::string> last_lines;
  std::vector<std::string> notices;
};

class ExperimentTest : public testing::Test {
 protected:
  ExperimentTest() : store_(Store::OpenForWriting(StoreLayout(":memory:"))) {
    config_.name = "test";
    config_.entrypoint = std::string("builtin:FaultTrial");
    config_.searcher = {.name = "single", .metric = "loss", .max_length = 100};
    config_.max_restarts = 0;
    Record();
  }

  void Record() {
    store_.Write([this](StoreWriter& writer) {
      id_ = writer.AddExperiment({.name = "test",
                                  .searcher = "single",
                                  .metric = "loss",
                                  .seed = 7,
                                  .config = nlohmann::json::object(),
                                  .provenance = nlohmann::json::object()});
    });
  }

  Experiment Make() {
    ExperimentSetup setup{.id = id_, .config = config_, .seed = 7};
    setup.options.timeout = timeout_;
    return {std::move(setup),
            {.store = store_,
             .launcher = launcher_,
             .reporter = reporter_,
             .clock = clock_}};
  }
  RunResult Run() { return Make().Run(); }

  TrialRow Trial() { return store_.Trials(id_).at(0); }

  // Time passes by itself, a tenth of a second each time somebody looks.
  Duration time_{0};
  Clock clock_{
      .now = [] { return Timestamp(1'000'000); },
      .monotonic = [this] { return time_ += std::chrono::milliseconds(100); }};
  Store store_;
  std::int64_t id_ = 0;
  ExperimentConfig config_;
  std::optional<Duration> timeout_;
  FakeLauncher launcher_;
  ScriptedTrials trials_{launcher_};
  RecordingReporter reporter_;
};

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
  EXPECT_THAT(launcher_.calls(), Contains(HasSubstr("\"ack")));
  EXPECT_THAT(launcher_.calls(), Contains(HasSubstr("close")));
}

TEST_F(ExperimentTest, AcknowledgesNothingThatIsNotRecorded) {
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

TEST_F(ExperimentTest, FailsWhereItsOnlyTrialFails) {
  trials_.crashes = 1;

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kError);
  EXPECT_THAT(result.error, HasSubstr("trial 1.1: exited with code 3"));
  EXPECT_EQ(Trial().state, State::kError);
  EXPECT_EQ(Trial().reason, "exited with code 3");
}

TEST_F(ExperimentTest, RestartsAFailedTrial) {
  config_.max_restarts = 2;
  trials_.crashes = 2;

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kCompleted);
  EXPECT_EQ(Trial().restarts, 2);
  EXPECT_EQ(Trial().runs, 3);
  EXPECT_THAT(reporter_.notices, Contains(HasSubstr("restart 2 of 2")));
}

TEST_F(ExperimentTest, StartsATrialAtMostOncePlusMaxRestarts) {
  config_.max_restarts = 2;
  trials_.crashes = 100;

  EXPECT_EQ(Run().state, State::kError);

  EXPECT_EQ(launcher_.started().size(), 3u);
}

TEST_F(ExperimentTest, FailsATrialThatLacksTheSearcherMetric) {
  config_.max_restarts = 5;
  config_.searcher.metric = "los";

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kError);
  EXPECT_THAT(result.error, HasSubstr("'los' was not reported; reported: "
                                      "loss, acc"));
  EXPECT_EQ(launcher_.started().size(), 1u);
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

TEST_F(ExperimentTest, GoesOnAfterAPause) {
  trials_.silent = true;
  launcher_.Push(Interrupted{.signal = 15});
  (void)Run();
  trials_.silent = false;

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kCompleted);
  EXPECT_EQ(launcher_.started().size(), 2u);
  EXPECT_EQ(launcher_.started()[1].run, 1);
  EXPECT_EQ(store_.SearcherEvents(id_, 0).size(), 4u);
}

TEST_F(ExperimentTest, GoesOnFromTheLatestCheckpoint) {
  config_.max_restarts = 1;
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    if (spec.run > 0) {
      launcher_.Say(spec.id, OperationCompleted{.seq = 1,
                                                .length = *spec.until,
                                                .batches = 100,
                                                .metrics = trials_.metrics});
      return;
    }
    launcher_.Say(spec.id,
                  CheckpointSaved{.seq = 1, .uuid = "aaaa-40", .batches = 40});
    launcher_.Say(
        spec.id,
        TrainingReport{.seq = 2, .batches = 60, .metrics = {{"loss", 2}}});
    launcher_.Exit(spec.id, 1);
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(launcher_.started().at(1).restore, "aaaa-40");
  int rows = 0;
  store_.ForEachMetric({.experiment = id_}, [&](const MetricRow&) { ++rows; });
  EXPECT_EQ(rows, 0);  // what lay beyond the checkpoint is forgotten
}

TEST_F(ExperimentTest, DoesNotRestartInvalidHyperparameters) {
  config_.max_restarts = 5;
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    launcher_.Say(spec.id, Finished{.reason = EndReason::kInvalidHp,
                                    .message = "too wide"});
    launcher_.Exit(spec.id);
  };

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kError);
  EXPECT_EQ(Trial().reason, "invalid hyperparameters: too wide");
  EXPECT_EQ(launcher_.started().size(), 1u);
}

TEST_F(ExperimentTest, GivesUpATrialThatFailsTheSameWayBeforeTraining) {
  config_.max_restarts = 5;
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    launcher_.Say(spec.id, Finished{.reason = EndReason::kError,
                                    .message = "no mnist data"});
    launcher_.Exit(spec.id, 1);
  };

  EXPECT_EQ(Run().state, State::kError);

  EXPECT_EQ(Trial().reason, "no mnist data");
  EXPECT_EQ(launcher_.started().size(), 2u);
}

TEST_F(ExperimentTest, KillsATrialThatHangs) {
  trials_.silent = true;
  config_.hang_timeout = 5;

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kError);
  EXPECT_THAT(Trial().reason, HasSubstr("timeout: no step for 5.0s"));
  EXPECT_THAT(launcher_.calls(), Contains("kill 1.1"));
}

TEST_F(ExperimentTest, PausesAtItsTimeLimit) {
  trials_.silent = true;
  timeout_ = std::chrono::seconds(3);

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kPaused);
  EXPECT_TRUE(result.timed_out);
}

TEST_F(ExperimentTest, RefusesASearchThatWasRecordedOtherwise) {
  store_.Write([this](StoreWriter& writer) {
    writer.AddSearcherEvent(id_, {.seq = 1,
                                  .event = {{"event", "started"}},
                                  .operations = nlohmann::json::array()});
  });

  EXPECT_THROW(Run(), Error);
}

}  // namespace
}  // namespace dtrain

// Experiment: distribution of the slots among the trials of a search.

#include <algorithm>

#include "tests/engine/run/experiment_search_fixture.h"

namespace dtrain {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(ExperimentSearchTest, StartsTrialsInOrderOfCreation) {
  Grid();

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_THAT(Started(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Ends(), Each("COMPLETED: "));
  EXPECT_EQ(launcher_.most_running(), 1u);
}

TEST_F(ExperimentSearchTest, FillsTheSlots) {
  Grid();
  Slots(3);

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(launcher_.most_running(), 3u);
}

TEST_F(ExperimentSearchTest, ProgressIsTrainedOverPlannedLength) {
  Grid();
  Slots(2);
  trials_.silent = true;
  int waits = 0;
  std::vector<double> seen;
  launcher_.on_wait = [&] {
    ++waits;
    if (waits == 5) launcher_.Report({id_, 1}, Progress{30, 60, 0});
    if (waits == 20) {
      seen.push_back(reporter_.status.progress);
      launcher_.Exit({id_, 1}, /*exit_code=*/1);
    }
    if (waits == 40) {
      seen.push_back(reporter_.status.progress);
      launcher_.Push(Interrupted{.signal = 2});
    }
  };

  Run();

  // The plan no longer contains the failed trial's training.
  EXPECT_THAT(seen, ElementsAre(50.0 / 400, 50.0 / 350));
  EXPECT_DOUBLE_EQ(store_.Experiment(id_)->row.progress, 50.0 / 350);
}

TEST_F(ExperimentSearchTest, TotalOfAnEarlierLengthDoesNotChangeTheUnit) {
  Grid();
  config_.searcher.max_length = 8;
  config_.length_unit = Unit::kEpochs;
  config_.entrypoint = std::vector<std::string>{"train"};
  trials_.silent = true;
  int waits = 0;
  std::vector<double> seen;
  launcher_.on_wait = [&] {
    ++waits;
    if (waits == 5) launcher_.Report({id_, 1}, Progress{4, 8, 0});
    if (waits == 10) launcher_.Report({id_, 1}, Progress{2, 2, 0});
    if (waits == 20) seen.push_back(reporter_.status.progress);
    if (waits == 25) launcher_.Report({id_, 1}, Progress{500, 800, 0});
    if (waits == 40) launcher_.Push(Interrupted{.signal = 2});
  };

  Run();

  EXPECT_THAT(reporter_.counted, ElementsAre(Unit::kEpochs, Unit::kBatches));
  EXPECT_THAT(seen, ElementsAre(4.0 / 32));
}

TEST_F(ExperimentSearchTest, ProgressFollowsTheReports) {
  Grid();
  trials_.silent = true;
  int waits = 0;
  std::vector<double> seen;
  launcher_.on_wait = [&] {
    ++waits;
    if (waits == 5) {
      launcher_.Report(
          {id_, 1},
          TrainingReport{.seq = 1, .batches = 50, .metrics = {{"loss", 1}}});
    }
    if (waits == 20) {
      seen.push_back(reporter_.status.progress);
      launcher_.Report(
          {id_, 1},
          ValidationReport{.seq = 2, .batches = 80, .metrics = {{"loss", 1}}});
    }
    if (waits == 40) {
      seen.push_back(reporter_.status.progress);
      launcher_.Push(Interrupted{.signal = 2});
    }
  };

  Run();

  EXPECT_THAT(seen, ElementsAre(50.0 / 400, 80.0 / 400));
}

TEST_F(ExperimentSearchTest, ProgressNeverGoesBack) {
  Asha(/*trials=*/4, /*concurrent=*/4);
  Slots(4);
  double most = 0;
  bool went_back = false;
  launcher_.one_at_a_time = true;
  launcher_.on_wait = [&] {
    went_back = went_back || reporter_.status.progress < most;
    most = std::max(most, reporter_.status.progress);
  };
  bool stopped = false;
  launcher_.on_send = [&](TrialId trial, const RunnerMessage& message) {
    if (std::get_if<CloseTrial>(&message) != nullptr) {
      return trials_.End(trial, EndReason::kCompleted);
    }
    if (const auto* run = std::get_if<RunOperation>(&message)) {
      if (!std::exchange(stopped, true)) {
        return launcher_.Push(Interrupted{.signal = 2});
      }
      trials_.Work(trial, run->until);
    }
  };
  EXPECT_EQ(Run().state, State::kPaused);
  const double paused = store_.Experiment(id_)->row.progress;
  EXPECT_GT(paused, 0);

  // A trial that was being trained further begins again from its checkpoint.
  EXPECT_EQ(Run().state, State::kCompleted);
  EXPECT_FALSE(went_back);
  EXPECT_GE(most, paused);
}

// Each trial is the best so far and trains to the end: 400 batches. The plan,
// which stops one of two, has 300.
TEST_F(ExperimentSearchTest, ProgressIsCappedAtThePlan) {
  Asha(/*trials=*/4, /*concurrent=*/1, /*stop_once=*/true);
  Losses({0.4, 0.3, 0.2, 0.1});
  launcher_.one_at_a_time = true;
  std::vector<double> seen;
  launcher_.on_wait = [&] { seen.push_back(reporter_.status.progress); };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(store_.Trial({id_, 4})->batches, 100);
  EXPECT_TRUE(std::ranges::is_sorted(seen)) << testing::PrintToString(seen);
}

TEST_F(ExperimentSearchTest, CountsEverySlotOfATrialThatRuns) {
  Grid();
  Slots(2);
  slots_per_trial_ = 3;
  trials_.silent = true;
  int waits = 0;
  std::int64_t in_use = 0;
  launcher_.on_wait = [&] {
    if (++waits != 20) return;
    in_use = reporter_.status.slots_in_use;
    launcher_.Push(Interrupted{.signal = 2});
  };

  (void)Run();

  EXPECT_EQ(in_use, 2 * 3);
}

TEST_F(ExperimentSearchTest, ProgressOfHalvingIsMeasuredByItsPlan) {
  Asha(/*trials=*/4, /*concurrent=*/4);
  Slots(4);
  trials_.silent = true;
  int waits = 0;
  launcher_.on_wait = [&] {
    ++waits;
    if (waits == 5) launcher_.Report({id_, 2}, Progress{50, 100, 0});
    if (waits == 20) launcher_.Push(Interrupted{.signal = 2});
  };

  Run();

  // Planned are two trials of 50 and two of 100.
  EXPECT_DOUBLE_EQ(store_.Experiment(id_)->row.progress, 25.0 / 300);
}

TEST_F(ExperimentSearchTest, HoldsMaxConcurrentTrials) {
  Grid(/*concurrent=*/2);
  Slots(8);

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(launcher_.most_running(), 2u);
}

TEST_F(ExperimentSearchTest, CountsPendingTrialsAsConcurrent) {
  Asha(/*trials=*/8, /*concurrent=*/2);
  Slots(8);

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(launcher_.most_running(), 2u);
}

TEST_F(ExperimentSearchTest, PausesAnIdleTrialAndResumesFromItsCheckpoint) {
  Asha(/*trials=*/2, /*concurrent=*/1);
  Losses({0.1, 0.5});

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_THAT(Started(), ElementsAre(1, 2, 1));
  EXPECT_THAT(launcher_.calls(), Contains("stop 1.1"));
  EXPECT_EQ(launcher_.started()[2].run, 1);
  EXPECT_THAT(launcher_.started()[2].restore, HasSubstr("100000000050"));
  EXPECT_EQ(launcher_.started()[2].until->count, 100);
  EXPECT_THAT(Ends(), ElementsAre("COMPLETED: ",
                                  "STOPPED: not promoted from rung 1 of 2 "
                                  "(50 batches)"));
  EXPECT_EQ(Trial(1).rung, 2);
}

TEST_F(ExperimentSearchTest,
       KeepsTheProcessOfAnIdleTrialWhileItsSlotIsNotNeeded) {
  Asha(/*trials=*/2, /*concurrent=*/2);
  Losses({0.1, 0.5});
  Slots(2);

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_THAT(Started(), ElementsAre(1, 2));
  EXPECT_THAT(launcher_.calls(),
              Contains(HasSubstr("send 1.1 {\"type\":\"run\"")));
}

TEST_F(ExperimentSearchTest, ForgetsNoOperationOfATrialThatIsBeingPaused) {
  // Trial 1 was asked to pause, since trial 3 wants its slot; before it has
  // gone the result of trial 2 promotes it.
  Asha(/*trials=*/3, /*concurrent=*/2);
  Losses({0.1, 0.5, 0.9});
  Slots(2);
  launcher_.one_at_a_time = true;
  launcher_.on_start = [this](const TrialSpec& spec) {
    if (spec.id.number != 2) return trials_.Begin(spec);
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
  };
  launcher_.on_stop = [this](TrialId trial) {
    if (trial.number == 1) trials_.Work({id_, 2}, {.count = 50});
    trials_.End(trial, EndReason::kStopped);
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(std::ranges::count(Started(), 1), 2);
  EXPECT_EQ(Trial(1).state, State::kCompleted);
  EXPECT_EQ(Trial(1).rung, 2);
}

TEST_F(ExperimentSearchTest, RestartsAFailedTrialInItsOwnSlotAtFirst) {
  Grid();
  config_.max_restarts = 3;
  trials_.crashes = 3;
  tick_ = std::chrono::milliseconds(1);

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_THAT(Started(), ElementsAre(1, 1, 1, 1, 2, 3, 4));
  EXPECT_EQ(Trial(1).restarts, 3);
}

TEST_F(ExperimentSearchTest, KeepsNoMoreThanTheSlotOfAFailedTrial) {
  Grid();
  Slots(2);
  config_.max_restarts = 1;
  trials_.crashes = 1;
  tick_ = std::chrono::milliseconds(1);

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_THAT(Started(), ElementsAre(1, 2, 3, 4, 1));
}

TEST_F(ExperimentSearchTest, OthersRunWhileAFailedTrialWaits) {
  Grid();
  config_.max_restarts = 4;
  trials_.crashes = 4;
  tick_ = std::chrono::milliseconds(1);

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(Started().at(3), 1);
  EXPECT_EQ(Started().at(4), 2);
  EXPECT_EQ(std::ranges::count(Started(), 1), 5);
  EXPECT_EQ(Trial(1).restarts, 4);
}

TEST_F(ExperimentSearchTest, KilledTrialDoesNotChangeTheSearch) {
  const auto operations = [this] {
    std::vector<std::string> texts;
    for (const auto& row : store_.SearcherEvents(id_, 0)) {
      texts.push_back(nlohmann::json(row.operations).dump());
    }
    return texts;
  };
  Asha(/*trials=*/8, /*concurrent=*/4);
  tick_ = std::chrono::milliseconds(1);
  EXPECT_EQ(Run().state, State::kCompleted);
  const auto undisturbed = operations();

  Record();
  config_.max_restarts = 1;
  std::int64_t kills = 0;
  launcher_.on_start = [&](const TrialSpec& spec) {
    if (spec.run > 0 || ++kills % 3 != 0) return trials_.Begin(spec);
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    launcher_.Exit(spec.id, /*exit_code=*/137);
  };
  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(operations(), undisturbed);
}

TEST_F(ExperimentSearchTest, DropsTheBestOfAnEarlierRunWhenItIsBeaten) {
  Grid();
  Losses({0.5, 0.4, 0.6, 0.7});
  config_.checkpoints = {
      .save_experiment_best = 1, .save_trial_best = 0, .save_trial_latest = 0};
  bool stopped = false;
  launcher_.on_start = [&](const TrialSpec& spec) {
    if (spec.id.number == 1 || stopped) return trials_.Begin(spec);
    stopped = true;
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    launcher_.Push(Interrupted{.signal = 2});
  };
  const auto kept = [this] {
    std::vector<std::int64_t> trials;
    for (const CheckpointRow& row : store_.Checkpoints(id_)) {
      trials.push_back(row.trial.number);
    }
    return trials;
  };

  EXPECT_EQ(Run().state, State::kPaused);
  EXPECT_THAT(kept(), ElementsAre(1));
  EXPECT_EQ(Run().state, State::kCompleted);
  EXPECT_THAT(kept(), ElementsAre(2));
}

TEST_F(ExperimentSearchTest, ResumesAfterAPause) {
  Asha(/*trials=*/8, /*concurrent=*/3);
  int waits = 0;
  launcher_.on_wait = [this, &waits] {
    if (++waits == 40) launcher_.Push(Interrupted{.signal = 2});
  };
  EXPECT_EQ(Run().state, State::kPaused);
  EXPECT_THAT(Ends(), Contains("PAUSED: "));

  EXPECT_EQ(Run().state, State::kCompleted);
  EXPECT_EQ(store_.Trials(id_).size(), 8u);
  EXPECT_THAT(Ends(),
              Each(testing::AnyOf("COMPLETED: ", HasSubstr("not promoted"))));
}

TEST_F(ExperimentSearchTest, ReportsTheStatesOfTrials) {
  Asha(/*trials=*/4, /*concurrent=*/1);
  Losses({0.4, 0.3, 0.2, 0.1});

  const RunResult result = Run();

  const RunStatus& status = reporter_.status;
  ASSERT_EQ(status.rungs.size(), 2u);
  EXPECT_EQ(status.rungs[0].length.count, 50);
  EXPECT_EQ(status.rungs[0].done, 4);
  EXPECT_EQ(status.rungs[1].done, 3);
  EXPECT_EQ(status.trials, 4);
  EXPECT_EQ(status.trials_ended, 4);
  EXPECT_THAT(status.running, IsEmpty());
  EXPECT_EQ(status.best_hparams, Trial(4).hparams);
  EXPECT_EQ(result.best_trial, 4);
}

TEST_F(ExperimentSearchTest, NeedsFewTransactionsForATrial) {
  config_.searcher = {
      .name = "random", .metric = "loss", .max_length = 100, .max_trials = 50};
  launcher_.one_at_a_time = true;
  tick_ = std::chrono::microseconds(1);
  Experiment experiment = Make();

  EXPECT_EQ(experiment.Run().state, State::kCompleted);

  EXPECT_LE(experiment.transactions(), 50 * 4);
}

}  // namespace
}  // namespace dtrain

#include "engine/run/search_results.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

SearcherConfig Adaptive() {
  // Brackets of three, two and one rung: 100 300 900, 300 900, 900.
  return {.name = "adaptive_asha",
          .metric = "loss",
          .max_length = 900,
          .max_trials = 20,
          .divisor = 3,
          .mode = "conservative",
          .max_rungs = 3};
}

TEST(RungsTest, CountsTrialsOverAllBrackets) {
  Rungs rungs(Adaptive(), Unit::kBatches);
  rungs.Count(300);
  rungs.Count(300);

  const auto status = rungs.Status({{900, 1}});

  ASSERT_THAT(status, SizeIs(3));
  EXPECT_EQ(status[0].length, (Length{100, Unit::kBatches}));
  EXPECT_EQ(status[1].done, 2);
  EXPECT_EQ(status[1].running, 0);
  EXPECT_EQ(status[2].running, 1);
}

TEST(RungsTest, FindsTheRungInTheTrialsBracket) {
  const Rungs rungs(Adaptive(), Unit::kBatches);

  EXPECT_EQ(rungs.StopReason(1, 100),
            "not promoted from rung 1 of 3 (100 batches)");
  EXPECT_EQ(rungs.StopReason(2, 300),
            "not promoted from rung 2 of 3 (300 batches)");
  EXPECT_EQ(rungs.StopReason(1, 300),
            "not promoted from rung 1 of 2 (300 batches)");
}

TEST(RungsTest, ReportsTheRungOfAStoppedTrial) {
  SearcherConfig config = Adaptive();
  config.stop_once = true;
  config.max_length = 9;
  const Rungs rungs(config, Unit::kEpochs);

  EXPECT_EQ(rungs.StopReason(1, 1), "stopped at rung 1 of 3 (1 epoch)");
}

TEST(RungsTest, IsEmptyIfAllTrialsTrainToOneLength) {
  Rungs rungs({.name = "random", .max_length = 10, .max_trials = 3},
              Unit::kEpochs);
  rungs.Count(10);

  EXPECT_THAT(rungs.Status({}), IsEmpty());
  EXPECT_EQ(rungs.StopReason(0, 0), "stopped by the searcher");
}

class UnreadHparamsTest : public testing::Test {
 protected:
  static ExperimentConfig Config(bool is_program) {
    ExperimentConfig config;
    if (is_program) {
      config.entrypoint = std::vector<std::string>{"train"};
    } else {
      config.entrypoint = std::string("model_def:Trial");
    }
    config.rules = 2;
    config.searcher.name = "random";
    config.hyperparameters = {
        {"lr", {{"type", "double"}, {"minval", 0}, {"maxval", 1}}},
        {"layers", 3}};
    return config;
  }

  const TrialRow trial_{.id = {1, 1}, .hparams = {{"lr", 0.5}, {"layers", 3}}};
};

TEST_F(UnreadHparamsTest, AreThoseThatNoTrialHasRead) {
  const ExperimentConfig config = Config(/*is_program=*/false);
  UnreadHparams custom(config, /*is_custom=*/true);
  EXPECT_EQ(custom.names(), std::nullopt);
  custom.Record(trial_, {"lr", "layers"});
  custom.Record(trial_, {"layers"});
  EXPECT_THAT(*custom.names(), testing::ElementsAre("layers"));

  // Only searched ones count.
  UnreadHparams built_in(config, /*is_custom=*/false);
  built_in.Record(trial_, {"lr", "layers"});
  EXPECT_THAT(*built_in.names(), testing::ElementsAre("lr"));
}

TEST_F(UnreadHparamsTest, OfAProgramThatNamesNoneAreUnknown) {
  const ExperimentConfig config = Config(/*is_program=*/true);
  UnreadHparams unread(config, /*is_custom=*/false);
  unread.Record(trial_, {"lr"});
  EXPECT_EQ(unread.names(), std::nullopt);
  unread.RecordAtEnd(trial_, {});
  unread.RecordAtEnd(trial_, {"lr"});
  EXPECT_EQ(unread.names(), std::nullopt);

  UnreadHparams named(config, /*is_custom=*/false);
  named.RecordAtEnd(trial_, {"lr", "layers"});
  named.RecordAtEnd(trial_, {"layers"});
  EXPECT_THAT(*named.names(), testing::ElementsAre("layers"));
}

TEST_F(UnreadHparamsTest, WarnsOnceForEachSetOfNames) {
  const ExperimentConfig config = Config(/*is_program=*/true);
  UnreadHparams unread(config, /*is_custom=*/false);
  EXPECT_EQ(unread.Warn({}), "");
  EXPECT_EQ(unread.Warn({"lr"}),
            "has not read the hyperparameter lr; correct its name in the "
            "configuration, or read it in the script");
  EXPECT_EQ(unread.Warn({"lr"}), "");
  EXPECT_NE(unread.Warn({"lr", "layers"}), "");
}

TEST_F(UnreadHparamsTest, ASearchOfAnUnreadOneIsInVain) {
  ExperimentConfig config = Config(/*is_program=*/true);
  const UnreadHparams unread(config, /*is_custom=*/false);
  UnreadHparams first = unread;
  EXPECT_THAT(first.CheckFirst(trial_, {"lr", "layers"}, nullptr),
              testing::StartsWith("trial 1.1 was validated and has not read "
                                  "lr, which is searched"));
  // Trials that are validated later may read less.
  EXPECT_EQ(first.CheckFirst(trial_, {"lr"}, nullptr), "");
  UnreadHparams resumed = unread;
  resumed.SetValidated();
  EXPECT_EQ(resumed.CheckFirst(trial_, {"lr"}, nullptr), "");
  const auto may_read = [](const std::string& name) { return name == "lr"; };
  EXPECT_EQ(UnreadHparams(unread).CheckFirst(trial_, {"layers"}, nullptr), "");
  EXPECT_EQ(UnreadHparams(unread).CheckFirst(trial_, {"lr"}, may_read), "");
  config.searcher.name = "single";
  EXPECT_EQ(UnreadHparams(unread).CheckFirst(trial_, {"lr"}, nullptr), "");
}

// One that decides a condition has an effect on trials that do not read it.
TEST_F(UnreadHparamsTest, DoNotCountThoseThatDecideConditions) {
  ExperimentConfig config = Config(/*is_program=*/true);
  config.hyperparameters["layers"] = {
      {"type", "const"}, {"val", 3}, {"when", {{"lr", {{"minval", 0.1}}}}}};
  UnreadHparams program(config, /*is_custom=*/false);
  EXPECT_EQ(program.CheckFirst(trial_, {"lr"}, nullptr), "");
  EXPECT_EQ(program.Warn({"lr"}), "");
  EXPECT_NE(program.Warn({"lr", "layers"}), "");
  program.RecordAtEnd(trial_, {"lr", "layers"});
  EXPECT_THAT(*program.names(), testing::ElementsAre("layers"));

  config.entrypoint = std::string("model_def:Trial");
  UnreadHparams custom(config, /*is_custom=*/true);
  custom.Record(trial_, {"lr", "layers"});
  EXPECT_THAT(*custom.names(), testing::ElementsAre("layers"));
}

TEST(RequiredMetricsTest, NamesWhatWasReportedInPlaceOfTheMetric) {
  ExperimentConfig config;
  config.searcher.metric = "acc";
  const RequiredMetrics metrics(config);
  EXPECT_EQ(metrics.Find({{"loss", 1}, {"acc", 0.5}}), 0.5);
  EXPECT_EQ(metrics.Find({{"loss", 1}}), std::nullopt);
  const std::string before =
      "searcher.metric 'acc' was not reported; reported: ";
  const std::string after = "; set searcher.metric to one of these";
  struct Row {
    MetricValues metrics;
    std::string text;
  };
  for (const Row& it :
       {Row{{}, "none" + after}, Row{{{"loss", 1}}, "loss" + after},
        Row{{{"loss", 1}, {"val_acc", 0.5}},
            "loss, val_acc" + after + "; did you mean 'val_acc'?"}}) {
    EXPECT_EQ(metrics.MissingText(it.metrics), before + it.text);
  }
}

TEST(RequiredMetricsTest, WarnsOnceWhereNothingIsSearched) {
  ExperimentConfig config;
  config.searcher.metric = "acc";
  config.training.requires_metric = false;
  RequiredMetrics reported(config);
  EXPECT_TRUE(reported.may_lack());
  EXPECT_EQ(reported.Warn({{"loss", 1}}),
            "no best: searcher.metric 'acc' was not reported; reported: loss; "
            "set searcher.metric to one of these");
  EXPECT_EQ(reported.Warn({{"loss", 1}}), "");
  EXPECT_EQ(RequiredMetrics(config).Warn({}),
            "no best: searcher.metric 'acc' was not reported; no metric was");
}

TEST(RequiredMetricsTest, ATrialThatStopsEarlyNeedsItsMetric) {
  ExperimentConfig config;
  config.searcher.metric = "acc";
  const RequiredMetrics metrics(config);
  EXPECT_EQ(metrics.CheckStopping({{"acc", 1}}), "");
  config.training.early_stopping.emplace();
  config.training.early_stopping->metric = "loss";
  EXPECT_EQ(metrics.CheckStopping({{"loss", 1}}), "");
  EXPECT_EQ(metrics.CheckStopping({{"acc", 1}}),
            "early_stopping.metric 'loss' was not reported; reported: acc; set "
            "early_stopping.metric to one of these");
}

class BestTrialTest : public testing::Test {
 protected:
  TrialRow first_{.id = {1, 1}, .hparams = {{"x", 1}}};
  TrialRow second_{.id = {1, 2}, .hparams = {{"x", 2}}};
  BestTrial best_{/*smaller_is_better=*/true};
};

TEST_F(BestTrialTest, IsTheSmallestValue) {
  EXPECT_TRUE(best_.Offer(first_, 0.5, {100}));
  EXPECT_TRUE(best_.Offer(second_, 0.4, {100}));
  EXPECT_FALSE(best_.Offer(first_, 0.45, {200}));

  EXPECT_EQ(best_.trial(), 2);
  EXPECT_EQ(best_.validation()->value, 0.4);
  EXPECT_EQ(best_.hparams().at("x"), 2);
  EXPECT_EQ(first_.best->batches, 200);
}

TEST_F(BestTrialTest, IsTheLargestValueIfLargerIsBetter) {
  BestTrial best(/*smaller_is_better=*/false);

  EXPECT_TRUE(best.Offer(first_, 0.4, {100}));
  EXPECT_FALSE(best.Offer(second_, 0.3, {100}));
}

TEST_F(BestTrialTest, IsTheFirstOfEqualTrials) {
  best_.Offer(second_, 0.5, {100});

  EXPECT_TRUE(best_.Offer(first_, 0.5, {100}));
  EXPECT_FALSE(best_.Offer(second_, 0.5, {200}));
  EXPECT_EQ(best_.trial(), 1);
}

TEST_F(BestTrialTest, IsNeverNanOrInfinite) {
  EXPECT_FALSE(
      best_.Offer(first_, std::numeric_limits<double>::quiet_NaN(), {100}));
  EXPECT_FALSE(
      best_.Offer(first_, -std::numeric_limits<double>::infinity(), {100}));
  EXPECT_FALSE(best_.validation().has_value());
}

TEST_F(BestTrialTest, NamesItsCheckpointWhileItExists) {
  best_.Offer(first_, 0.5, {100});
  best_.SetCheckpoint({1, 2}, 100, "other");
  EXPECT_EQ(best_.validation()->checkpoint, "");

  best_.SetCheckpoint({1, 1}, 100, "own");
  EXPECT_EQ(best_.validation()->checkpoint, "own");

  best_.ClearCheckpoint("own");
  EXPECT_EQ(best_.validation()->checkpoint, "");
}

}  // namespace
}  // namespace dtrain

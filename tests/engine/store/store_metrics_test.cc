#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"
#include "tests/engine/store/sample_rows.h"

namespace dtrain {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

class StoreMetricsTest : public testing::Test {
 protected:
  StoreMetricsTest() { AddSample(store_, /*trials=*/3); }

  void Add(std::int64_t batches, const MetricValues& values,
           MetricKind kind = MetricKind::kTraining) {
    store_.Write([&](StoreWriter& writer) {
      writer.AddMetrics({1, 1}, kind, batches, /*epoch=*/0.5, values,
                        Timestamp(9));
    });
  }
  void Validate(std::int64_t trial, std::int64_t batches, double value,
                bool smaller_is_better = true) {
    store_.Write([&](StoreWriter& writer) {
      writer.AddValidation({1, trial}, value, batches, smaller_is_better);
    });
  }
  // By run 1, of values of run 0.
  void Supersede(MetricKind kind, std::int64_t from, std::int64_t until,
                 bool smaller_is_better = true) {
    store_.Write([&](StoreWriter& writer) {
      writer.SupersedeMetrics({1, 1}, /*run=*/1, kind, from, until,
                              smaller_is_better);
    });
  }
  std::vector<MetricRow> Rows(bool superseded = false) {
    std::vector<MetricRow> rows;
    store_.ForEachMetric({.experiment = 1, .superseded = superseded},
                         [&](const MetricRow& row) { rows.push_back(row); });
    return rows;
  }
  TrialRow Trial(std::int64_t number) { return *store_.Trial({1, number}); }
  ExperimentRow Row() { return store_.Experiment(1)->row; }

  Store store_ = Store::OpenForWriting(StoreLayout(":memory:"));
};

TEST_F(StoreMetricsTest, EveryKindOfNumberRoundTrips) {
  Add(100, {{"a", 0.1},
            {"b", kNan},
            {"c", kInfinity},
            {"d", -kInfinity},
            {"e", std::numeric_limits<double>::denorm_min()},
            {"f", -0.0}});

  const auto rows = Rows();

  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0].value, 0.1);
  EXPECT_TRUE(std::isnan(rows[1].value));
  EXPECT_EQ(rows[2].value, kInfinity);
  EXPECT_EQ(rows[3].value, -kInfinity);
  EXPECT_EQ(rows[4].value, std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(rows[5].value, 0);
  EXPECT_EQ(rows[0].time, Timestamp(9));
  EXPECT_EQ(rows[0].epoch, 0.5);
}

TEST_F(StoreMetricsTest, LastReportOfABatchWins) {
  Add(100, {{"loss", 1}, {"acc", 0}});
  Add(100, {{"loss", kNan}});
  Add(100, {{"loss", 2}});

  const auto rows = Rows();

  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "acc");
  EXPECT_EQ(rows[1].value, 2);
}

TEST_F(StoreMetricsTest, NamesMayHoldAnything) {
  const std::string odd("a\0'\"\n\xc3\xa9", 8);
  Add(100, {{odd, 1}});

  EXPECT_EQ(Rows().at(0).name, odd);
}

TEST_F(StoreMetricsTest, SmallestValueIsBestIfSmallerIsBetter) {
  Validate(1, 100, 0.5);
  Validate(1, 200, 0.3);
  Validate(1, 300, 0.4);

  EXPECT_EQ(Trial(1).best->value, 0.3);
  EXPECT_EQ(Trial(1).best->batches, 200);
  EXPECT_EQ(Trial(1).latest->value, 0.4);
  EXPECT_EQ(Row().best->value, 0.3);
  EXPECT_EQ(Row().best_trial, 1);
}

TEST_F(StoreMetricsTest, LargestValueIsBestIfLargerIsBetter) {
  Validate(1, 100, 0.5, /*smaller_is_better=*/false);
  Validate(2, 100, 0.7, /*smaller_is_better=*/false);
  Validate(1, 200, 0.6, /*smaller_is_better=*/false);

  EXPECT_EQ(Trial(1).best->value, 0.6);
  EXPECT_EQ(Row().best->value, 0.7);
  EXPECT_EQ(Row().best_trial, 2);
}

TEST_F(StoreMetricsTest, NanAndInfinitiesAreNeverBest) {
  Validate(1, 100, kNan);
  Validate(1, 200, -kInfinity);
  EXPECT_EQ(Trial(1).best, std::nullopt);
  EXPECT_EQ(Trial(1).latest->value, -kInfinity);
  EXPECT_EQ(Row().best, std::nullopt);

  Validate(1, 300, 0.9);
  Validate(1, 400, kNan);

  EXPECT_EQ(Trial(1).best->value, 0.9);
  EXPECT_TRUE(std::isnan(Trial(1).latest->value));
  EXPECT_EQ(Row().best->value, 0.9);
}

TEST_F(StoreMetricsTest, NanAndInfinitiesAreNeverBestIfLargerIsBetter) {
  Validate(1, 100, kNan, /*smaller_is_better=*/false);
  Validate(1, 200, kInfinity, /*smaller_is_better=*/false);
  Validate(2, 100, -3, /*smaller_is_better=*/false);

  EXPECT_EQ(Trial(1).best, std::nullopt);
  EXPECT_EQ(Row().best->value, -3);
}

TEST_F(StoreMetricsTest, FirstOfEqualTrialsIsBest) {
  Validate(2, 100, 0.5);
  Validate(3, 100, 0.5);
  Validate(1, 100, 0.5);

  EXPECT_EQ(Row().best_trial, 1);
}

TEST_F(StoreMetricsTest, RepeatedValidationReplacesThePreviousOne) {
  Validate(1, 100, 0.1);
  Validate(1, 200, 0.5);
  Validate(1, 100, kNan);

  EXPECT_EQ(Trial(1).best->value, 0.5);
  EXPECT_EQ(Trial(1).latest->value, 0.5);
  EXPECT_EQ(Row().best->value, 0.5);
}

TEST_F(StoreMetricsTest, SupersededValuesStayButDoNotCount) {
  Add(100, {{"loss", 1}});
  Add(200, {{"loss", 2}});
  Add(200, {{"val_loss", 0.1}}, MetricKind::kValidation);
  Validate(1, 100, 0.5);
  Validate(1, 200, 0.1);
  Validate(2, 100, 0.4);

  Supersede(MetricKind::kTraining, 101, 300);
  EXPECT_EQ(Row().best->value, 0.1) << "no validation was passed";
  Supersede(MetricKind::kValidation, 101, 300);

  EXPECT_EQ(Rows().size(), 1u);
  const auto all = Rows(/*superseded=*/true);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_FALSE(all[0].superseded);
  EXPECT_TRUE(all[1].superseded);
  EXPECT_EQ(all[2].value, 0.1);
  EXPECT_TRUE(all[2].superseded);
  EXPECT_EQ(Trial(1).best->value, 0.5);
  EXPECT_EQ(Trial(1).latest->batches, 100);
  EXPECT_EQ(Row().best->value, 0.4);
  EXPECT_EQ(Row().best_trial, 2);
}

TEST_F(StoreMetricsTest, LargestRemainingValueIsBest) {
  Validate(1, 50, 0.2, /*smaller_is_better=*/false);
  Validate(1, 100, 0.5, /*smaller_is_better=*/false);
  Validate(1, 200, 0.9, /*smaller_is_better=*/false);
  Validate(2, 100, 0.4, /*smaller_is_better=*/false);

  Supersede(MetricKind::kValidation, 101, 300, /*smaller_is_better=*/false);

  EXPECT_EQ(Trial(1).best->value, 0.5);
  EXPECT_EQ(Row().best->value, 0.5);
  EXPECT_EQ(Row().best_trial, 1);
}

TEST_F(StoreMetricsTest, AllValuesMayBeSuperseded) {
  Add(100, {{"loss", 1}});
  Validate(1, 100, 0.5, /*smaller_is_better=*/false);

  Supersede(MetricKind::kTraining, 1, 300);
  Supersede(MetricKind::kValidation, 1, 300);

  EXPECT_TRUE(Rows().empty());
  EXPECT_EQ(Trial(1).best, std::nullopt);
  EXPECT_EQ(Trial(1).latest, std::nullopt);
  EXPECT_EQ(Row().best, std::nullopt);
  EXPECT_EQ(Row().best_trial, 0);
}

TEST_F(StoreMetricsTest, OnlyEarlierRunsAndTheBatchesPassedAreSuperseded) {
  Add(100, {{"loss", 1}});
  Add(200, {{"loss", 2}});
  Add(300, {{"loss", 3}});
  store_.Write([](StoreWriter& writer) {
    writer.AddMetrics({1, 1}, MetricKind::kTraining, 200, 0, {{"acc", 4}},
                      Timestamp(9), /*run=*/1);
  });

  Supersede(MetricKind::kTraining, 101, 300);

  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].name, "acc");
  EXPECT_EQ(rows[2].batches, 300);
}

TEST_F(StoreMetricsTest, ValueThatIsMeasuredAgainCountsAgain) {
  Validate(1, 200, 0.1);
  Add(200, {{"val_loss", 0.1}}, MetricKind::kValidation);
  Supersede(MetricKind::kValidation, 101, 300);

  Validate(1, 200, 0.2);
  Add(200, {{"val_loss", 0.2}}, MetricKind::kValidation);

  ASSERT_EQ(Rows().size(), 1u);
  EXPECT_EQ(Trial(1).best->value, 0.2);
}

TEST_F(StoreMetricsTest, BestNamesItsCheckpointWhileItExists) {
  Validate(1, 100, 0.5);
  EXPECT_EQ(Trial(1).best->checkpoint, "");

  store_.Write([](StoreWriter& writer) {
    writer.AddCheckpoint(SampleCheckpoint({1, 1}, 100, "aaaaaaaa"));
    writer.AddCheckpoint(SampleCheckpoint({1, 1}, 200, "bbbbbbbb"));
  });
  const std::string uuid = "aaaaaaaa-6f4c-4a38-9d6c-3f1a5b2c7d8e";
  EXPECT_EQ(Trial(1).best->checkpoint, uuid);
  EXPECT_EQ(Trial(1).latest->checkpoint, uuid);
  EXPECT_EQ(Trial(1).latest_checkpoint.substr(0, 8), "bbbbbbbb");
  EXPECT_EQ(Row().best->checkpoint, uuid);

  store_.Write(
      [&](StoreWriter& writer) { writer.SetCheckpointState(uuid, "DELETED"); });
  EXPECT_EQ(Trial(1).best->checkpoint, "");
  EXPECT_EQ(Row().best->checkpoint, "");
}

TEST_F(StoreMetricsTest, CheckpointReportedAgainKeepsItsState) {
  const CheckpointRow checkpoint = SampleCheckpoint({1, 1}, 100, "aaaaaaaa");
  store_.Write([&](StoreWriter& writer) {
    writer.AddCheckpoint(checkpoint);
    writer.SetCheckpointState(checkpoint.uuid, "CORRUPT");
    writer.AddCheckpoint(checkpoint);
  });

  EXPECT_EQ(store_.Checkpoints(1).at(0).state, "CORRUPT");
}

TEST_F(StoreMetricsTest, ReportsSentAgainKeepTheirRun) {
  store_.Write([](StoreWriter& writer) {
    writer.AddMetrics({1, 1}, MetricKind::kTraining, 200, 0, {{"acc", 4}},
                      Timestamp(9), /*run=*/1);
    writer.AddMetrics({1, 1}, MetricKind::kTraining, 300, 0, {{"acc", 5}},
                      Timestamp(10), /*run=*/1);
    writer.AddMetrics({1, 1}, MetricKind::kTraining, 200, 0, {{"acc", 4}},
                      Timestamp(9), /*run=*/2);
    writer.AddMetrics({1, 1}, MetricKind::kTraining, 300, 0, {{"acc", 6}},
                      Timestamp(20), /*run=*/2);
  });

  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].run, 1);
  EXPECT_EQ(rows[1].run, 2);
  EXPECT_EQ(rows[1].value, 6);
}

}  // namespace
}  // namespace dtrain

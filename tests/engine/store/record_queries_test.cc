#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/store/store.h"
#include "tests/engine/store/sample_rows.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RecordQueriesTest : public testing::Test {
 protected:
  RecordQueriesTest() {
    AddSample(store_, /*trials=*/2);
    AddSample(store_, /*trials=*/1);
    store_.Write([](StoreWriter& writer) {
      const auto add = [&](TrialId trial, MetricKind kind, int batches,
                           const MetricValues& values) {
        writer.AddMetrics(trial, kind, batches, 0, values, Timestamp(1));
      };
      add({1, 2}, MetricKind::kTraining, 200, {{"lr", 1}, {"acc", 2}});
      add({1, 2}, MetricKind::kTraining, 100, {{"lr", 3}});
      add({1, 1}, MetricKind::kValidation, 100, {{"val_loss", 4}});
      add({1, 1}, MetricKind::kTraining, 300, {{"lr", 5}});
      add({2, 1}, MetricKind::kTraining, 100, {{"other", 6}});
    });
  }

  // "EXP.N kind batches name" of each row that the query gives.
  std::vector<std::string> Rows(const MetricQuery& query) {
    std::vector<std::string> rows;
    store_.ForEachMetric(query, [&](const MetricRow& row) {
      rows.push_back(ToString(row.trial) +
                     (row.kind == MetricKind::kTraining ? " t " : " v ") +
                     std::to_string(row.batches) + " " + row.name);
    });
    return rows;
  }

  Store store_ = Store::OpenForWriting(StoreLayout(":memory:"));
};

TEST_F(RecordQueriesTest, MetricsComeByTrialKindBatchesName) {
  EXPECT_THAT(Rows({.experiment = 1}),
              ElementsAre("1.1 t 300 lr", "1.1 v 100 val_loss", "1.2 t 100 lr",
                          "1.2 t 200 acc", "1.2 t 200 lr"));
}

TEST_F(RecordQueriesTest, MetricsAreFiltered) {
  EXPECT_THAT(Rows({.experiment = 1, .trial = 1}),
              ElementsAre("1.1 t 300 lr", "1.1 v 100 val_loss"));
  EXPECT_THAT(Rows({.experiment = 1, .kind = MetricKind::kValidation}),
              ElementsAre("1.1 v 100 val_loss"));
  EXPECT_THAT(Rows({.experiment = 1, .trial = 2, .name = "acc"}),
              ElementsAre("1.2 t 200 acc"));
  EXPECT_THAT(Rows({.experiment = 1, .name = "other"}), IsEmpty());
  EXPECT_THAT(Rows({.experiment = 3}), IsEmpty());
}

TEST_F(RecordQueriesTest, ACallbackMayAskTheStore) {
  std::vector<std::int64_t> seen;
  store_.ForEachMetric({.experiment = 1, .trial = 1}, [&](const MetricRow&) {
    seen.push_back(CountMetrics(store_, 2));
  });

  EXPECT_THAT(seen, ElementsAre(1, 1));
}

TEST_F(RecordQueriesTest, NamesAreThoseOfTheExperiment) {
  EXPECT_THAT(store_.MetricNames(1), ElementsAre("acc", "lr", "val_loss"));
  EXPECT_THAT(store_.MetricNames(2), ElementsAre("other"));
  EXPECT_THAT(store_.MetricNames(3), IsEmpty());
}

TEST_F(RecordQueriesTest, CheckpointComesBackWholeWithItsMetric) {
  store_.Write([](StoreWriter& writer) {
    writer.AddCheckpoint(SampleCheckpoint({1, 1}, 100, "aaaaaaaa"));
    writer.AddCheckpoint(SampleCheckpoint({1, 1}, 200, "bbbbbbbb"));
    writer.AddValidation({1, 1}, 0.25, 100, /*smaller_is_better=*/true);
  });

  const auto rows = store_.Checkpoints(1);

  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].trial, (TrialId{1, 1}));
  EXPECT_EQ(rows[0].batches, 100);
  EXPECT_EQ(rows[0].bytes, 4096);
  EXPECT_EQ(rows[0].files["model.safetensors"], "ab");
  EXPECT_EQ(rows[0].metric, 0.25);
  EXPECT_EQ(rows[1].metric, std::nullopt);
}

TEST_F(RecordQueriesTest, CheckpointKnowsWhereItLies) {
  std::int64_t id = 0;
  store_.Write([&](StoreWriter& writer) {
    NewExperiment experiment = SampleExperiment();
    experiment.storage = "/kept";
    id = writer.AddExperiment(experiment);
    writer.AddTrial(SampleTrial(id, 1));
    CheckpointRow row = SampleCheckpoint({id, 1}, 100, "cccccccc");
    row.storage = "/kept";
    writer.AddCheckpoint(row);
    writer.AddCheckpoint(SampleCheckpoint({1, 1}, 100, "aaaaaaaa"));
  });

  const CheckpointRow there = store_.Checkpoints(id).front();
  EXPECT_EQ(store_.Experiment(id)->storage, "/kept");
  EXPECT_EQ(store_.Storages(), std::vector<std::string>{"/kept"});
  EXPECT_EQ(store_.PathOf(there), std::filesystem::path("/kept") /
                                      store_.uuid() / std::to_string(id) / "1" /
                                      there.uuid);
  const CheckpointRow here = store_.Checkpoints(1).front();
  EXPECT_EQ(here.storage, "");
  EXPECT_EQ(store_.PathOf(here),
            store_.layout().Checkpoint(here.trial, here.uuid));
}

TEST_F(RecordQueriesTest, DeletedCheckpointsAreShownOnRequest) {
  store_.Write([](StoreWriter& writer) {
    const CheckpointRow row = SampleCheckpoint({1, 1}, 100, "aaaaaaaa");
    writer.AddCheckpoint(row);
    writer.SetCheckpointState(row.uuid, "DELETED");
  });

  EXPECT_THAT(store_.Checkpoints(1), IsEmpty());
  EXPECT_EQ(store_.Checkpoints(1, /*deleted=*/true).size(), 1u);
}

class CheckpointByPrefixTest : public RecordQueriesTest {
 protected:
  CheckpointByPrefixTest() {
    store_.Write([](StoreWriter& writer) {
      writer.AddCheckpoint(SampleCheckpoint({1, 1}, 100, "aaaabbbb"));
      writer.AddCheckpoint(SampleCheckpoint({1, 1}, 200, "aaaacccc"));
      writer.AddCheckpoint(SampleCheckpoint({2, 1}, 200, "ffffffff"));
    });
  }

  void ExpectRefusal(const std::string& prefix, ErrorKind kind,
                     const std::string& text) {
    try {
      store_.CheckpointByPrefix(prefix);
      FAIL() << "found";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }
};

TEST_F(CheckpointByPrefixTest, FindsTheOneThatFits) {
  EXPECT_EQ(store_.CheckpointByPrefix("aaaac").batches, 200);
  EXPECT_EQ(store_.CheckpointByPrefix("ffff").trial, (TrialId{2, 1}));
  EXPECT_EQ(
      store_.CheckpointByPrefix("aaaabbbb-6f4c-4a38-9d6c-3f1a5b2c7d8e").batches,
      100);
}

TEST_F(CheckpointByPrefixTest, RefusesWhatFitsNoneOrSeveral) {
  ExpectRefusal("aaaa", ErrorKind::kUsage, "fits several");
  ExpectRefusal("aaa", ErrorKind::kUsage, "at least 4");
  ExpectRefusal("beef", ErrorKind::kNotFound, "checkpoint 'beef'");
  ExpectRefusal("%%%%", ErrorKind::kNotFound, "is not in store");
}

}  // namespace
}  // namespace dtrain

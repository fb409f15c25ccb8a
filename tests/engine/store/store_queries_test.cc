#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/store/store.h"
#include "tests/engine/store/sample_rows.h"
#include "tests/support/field_names.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

class StoreQueriesTest : public testing::Test {
 protected:
  Store store_ = Store::OpenForWriting(StoreLayout(":memory:"));
};

TEST_F(StoreQueriesTest, EmptyStoreHasNothing) {
  EXPECT_THAT(store_.Experiments({}), IsEmpty());
  EXPECT_EQ(store_.Experiment(1), std::nullopt);
  EXPECT_THAT(store_.Trials(1), IsEmpty());
  EXPECT_EQ(store_.Trial({1, 1}), std::nullopt);
}

TEST_F(StoreQueriesTest, ExperimentsAreOrderedById) {
  AddSample(store_, 0);
  AddSample(store_, 2);

  EXPECT_THAT(
      store_.Experiments({}),
      ElementsAre(Field(&ExperimentRow::id, 1), Field(&ExperimentRow::id, 2)));
  EXPECT_THAT(store_.Experiments({.id = 2}),
              ElementsAre(Field(&ExperimentRow::trials, 2)));
}

TEST_F(StoreQueriesTest, TrialsAreOrderedByNumber) {
  AddSample(store_, 0);
  AddSample(store_, 2);

  EXPECT_THAT(store_.Trials(2),
              ElementsAre(Field(&TrialRow::id, TrialId{2, 1}),
                          Field(&TrialRow::id, TrialId{2, 2})));
  EXPECT_EQ(store_.Trial({2, 2})->id, (TrialId{2, 2}));
  EXPECT_EQ(store_.Trial({2, 3}), std::nullopt);
}

TEST_F(StoreQueriesTest, EveryStateRoundTrips) {
  AddSample(store_, 1);
  const auto state_after = [&](State state) {
    store_.Write([&](StoreWriter& writer) {
      writer.SetTrialState({1, 1}, state, Timestamp(1));
    });
    return store_.Trial({1, 1})->state;
  };

  EXPECT_EQ(state_after(State::kRunning), State::kRunning);
  EXPECT_EQ(state_after(State::kPaused), State::kPaused);
  EXPECT_EQ(state_after(State::kCompleted), State::kCompleted);
  EXPECT_EQ(state_after(State::kCanceled), State::kCanceled);
  EXPECT_EQ(state_after(State::kError), State::kError);
  EXPECT_EQ(state_after(State::kStopped), State::kStopped);
  EXPECT_EQ(state_after(State::kPending), State::kPending);
}

using testing::HasSubstr;

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

TEST_F(RecordQueriesTest, MetricsAreOrderedByTrialKindBatchesName) {
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

TEST_F(RecordQueriesTest, MetricsAfterSomeBatchesAreFound) {
  EXPECT_THAT(Rows({.experiment = 1, .trial = 2, .after = 100}),
              ElementsAre("1.2 t 200 acc", "1.2 t 200 lr"));
  EXPECT_THAT(Rows({.experiment = 1,
                    .trial = 2,
                    .kind = MetricKind::kTraining,
                    .after = 199}),
              ElementsAre("1.2 t 200 acc", "1.2 t 200 lr"));
  EXPECT_THAT(Rows({.experiment = 1, .after = 300}), IsEmpty());
}

TEST_F(RecordQueriesTest, LastReportsAreThoseThatCount) {
  EXPECT_EQ(store_.LastReport({1, 2}, MetricKind::kTraining), 200);
  EXPECT_EQ(store_.LastReport({1, 2}, MetricKind::kValidation), std::nullopt);
  EXPECT_EQ(store_.LastReport({3, 1}, MetricKind::kTraining), std::nullopt);
  store_.Write([](StoreWriter& writer) {
    writer.SupersedeMetrics({1, 2}, /*run=*/1, MetricKind::kTraining, 150, 300,
                            true);
  });
  EXPECT_EQ(store_.LastReport({1, 2}, MetricKind::kTraining), 100);
}

TEST_F(RecordQueriesTest, MetricsNameTheRunThatMeasuredThem) {
  store_.Write([](StoreWriter& writer) {
    writer.AddMetrics({2, 1}, MetricKind::kTraining, 50, 0, {{"a", 1}},
                      Timestamp(1), /*run=*/3);
  });
  std::vector<std::int64_t> runs;
  store_.ForEachMetric({.experiment = 2},
                       [&](const MetricRow& row) { runs.push_back(row.run); });
  EXPECT_THAT(runs, ElementsAre(3, 0));
}

TEST_F(RecordQueriesTest, CallbackMayQueryTheStore) {
  std::vector<std::int64_t> seen;
  store_.ForEachMetric({.experiment = 1, .trial = 1}, [&](const MetricRow&) {
    seen.push_back(CountMetrics(store_, 2));
  });

  EXPECT_THAT(seen, ElementsAre(1, 1));
}

TEST_F(StoreQueriesTest, TrialsMayLackTheirLargeParts) {
  AddSample(store_, 1);
  const auto rows = store_.Trials(1, {.hparams = false, .checkpoints = false});

  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].hparams, nullptr);
  EXPECT_FALSE(store_.Trials(1)[0].hparams.is_null());
}

TEST_F(StoreQueriesTest, HparamsOfTrialsAreReadByName) {
  AddSample(store_, 2);
  AddSample(store_, 1);
  std::vector<std::int64_t> trials;
  store_.ForEachHparams(1, {"none", "lr"},
                        [&](std::int64_t trial, const auto& values) {
                          trials.push_back(trial);
                          ASSERT_EQ(values.size(), 2U);
                          EXPECT_TRUE(values[0].is_discarded());
                          EXPECT_EQ(values[1], 0.1);
                        });
  EXPECT_THAT(trials, ElementsAre(1, 2));
}

class TrialMetricTest : public testing::Test {
 protected:
  TrialMetricTest() {
    AddSample(store_, /*trials=*/3);
    store_.Write([](StoreWriter& writer) {
      const auto add = [&](std::int64_t trial, int batches, double loss,
                           const MetricValues& values) {
        writer.AddMetrics({1, trial}, MetricKind::kValidation, batches, 0,
                          values, Timestamp(1));
        writer.AddValidation({1, trial}, loss, batches,
                             /*smaller_is_better=*/true);
      };
      add(1, 100, 3, {{"speed", 7}});
      add(1, 200, 1, {{"speed", 5}});
      add(1, 300, 2, {{"speed", 9}});
      add(2, 100, 3, {{"speed", 4}});
      add(2, 200, 1, {{"other", 5}});
      add(3, 100, NAN, {{"speed", NAN}});
      add(3, 200, NAN, {{"speed", HUGE_VAL}});
    });
  }

  std::map<std::int64_t, double> Values(MetricPick pick) const {
    return store_.TrialMetric(1, std::nullopt, MetricKind::kValidation, "speed",
                              pick);
  }

  Store store_ = Store::OpenForWriting(StoreLayout(":memory:"));
};

using TrialValuesMap = std::map<std::int64_t, double>;

TEST_F(TrialMetricTest, PicksTheValueAtTheBestValidationOrBeforeIt) {
  EXPECT_EQ(Values(MetricPick::kBest),
            (TrialValuesMap{{1, 5}, {2, 4}, {3, HUGE_VAL}}));
}

TEST_F(TrialMetricTest, PicksTheLastTheLeastAndTheGreatestValue) {
  EXPECT_EQ(Values(MetricPick::kLast),
            (TrialValuesMap{{1, 9}, {2, 4}, {3, HUGE_VAL}}));
  EXPECT_EQ(Values(MetricPick::kMin),
            (TrialValuesMap{{1, 5}, {2, 4}, {3, HUGE_VAL}}));
  EXPECT_EQ(Values(MetricPick::kMax),
            (TrialValuesMap{{1, 9}, {2, 4}, {3, HUGE_VAL}}));
}

TEST_F(TrialMetricTest, IsOfOneTrialKindAndName) {
  const auto kind = MetricKind::kValidation;
  EXPECT_EQ(store_.TrialMetric(1, 2, kind, "speed", MetricPick::kLast),
            (TrialValuesMap{{2, 4}}));
  EXPECT_THAT(store_.TrialMetric(1, 2, kind, "no", MetricPick::kMin),
              IsEmpty());
  EXPECT_THAT(store_.TrialMetric(1, std::nullopt, MetricKind::kTraining,
                                 "speed", MetricPick::kBest),
              IsEmpty());
}

TEST_F(TrialMetricTest, SkipsSupersededValues) {
  store_.Write([](StoreWriter& writer) {
    writer.SupersedeMetrics({1, 1}, /*run=*/2, MetricKind::kValidation, 200,
                            301, /*smaller_is_better=*/true);
  });
  EXPECT_EQ(Values(MetricPick::kMax).at(1), 7);
  EXPECT_EQ(Values(MetricPick::kMin).at(1), 7);
  EXPECT_EQ(Values(MetricPick::kLast).at(1), 7);
  EXPECT_EQ(Values(MetricPick::kBest).at(1), 7);
}

TEST_F(RecordQueriesTest, NamesAreOfTheExperiment) {
  EXPECT_THAT(store_.MetricNames(1), ElementsAre("acc", "lr", "val_loss"));
  EXPECT_THAT(store_.MetricNames(2), ElementsAre("other"));
  EXPECT_THAT(store_.MetricNames(3), IsEmpty());
}

TEST_F(RecordQueriesTest, CheckpointRoundTripsWithItsMetric) {
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

TEST_F(RecordQueriesTest, EveryFieldOfACheckpointRoundTrips) {
  NewExperiment experiment = SampleExperiment();
  experiment.storage = "/kept";
  CheckpointRow row = {.uuid = "cccccccc-6f4c-4a38-9d6c-3f1a5b2c7d8e",
                       .trial = {3, 1},
                       .state = "CORRUPT",
                       .batches = 100,
                       .epoch = 0.5,
                       .bytes = 4096,
                       .files = {{"model.safetensors", "ab"}},
                       .metric = 0.25,
                       .storage = "/kept",
                       .time = Timestamp(3000)};
  store_.Write([&](StoreWriter& writer) {
    ASSERT_EQ(writer.AddExperiment(experiment), 3);
    writer.AddTrial(SampleTrial(3, 1));
    writer.AddCheckpoint(row);
    writer.AddValidation(row.trial, 0.25, 100, /*smaller_is_better=*/true);
  });

  EXPECT_EQ(AllFields(store_.Checkpoints(3).at(0)), AllFields(row));
  EXPECT_EQ(AllFields(store_.CheckpointByPrefix("cccc")), AllFields(row));
  EXPECT_THAT(EqualFields(AllFields(row), AllFields(CheckpointRow{})),
              IsEmpty());
}

TEST_F(RecordQueriesTest, CheckpointHasItsPath) {
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
  EXPECT_EQ(store_.CheckpointPath(there),
            std::filesystem::path("/kept") / store_.uuid() /
                std::to_string(id) / "1" / there.uuid);
  const CheckpointRow here = store_.Checkpoints(1).front();
  EXPECT_EQ(here.storage, "");
  EXPECT_EQ(store_.CheckpointPath(here),
            store_.layout().Checkpoint(here.trial, here.uuid));
}

TEST_F(RecordQueriesTest, CheckpointsAreOrderedByTrialAndBatches) {
  store_.Write([](StoreWriter& writer) {
    writer.AddCheckpoint(SampleCheckpoint({1, 2}, 100, "dddddddd"));
    writer.AddCheckpoint(SampleCheckpoint({1, 1}, 300, "cccccccc"));
    writer.AddCheckpoint(SampleCheckpoint({1, 1}, 200, "bbbbbbbb"));
  });

  std::vector<std::string> uuids;
  for (const CheckpointRow& row : store_.Checkpoints(1)) {
    uuids.push_back(row.uuid.substr(0, 8));
  }
  EXPECT_THAT(uuids, ElementsAre("bbbbbbbb", "cccccccc", "dddddddd"));
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

TEST_F(CheckpointByPrefixTest, FindsTheMatchingOne) {
  EXPECT_EQ(store_.CheckpointByPrefix("aaaac").batches, 200);
  EXPECT_EQ(store_.CheckpointByPrefix("ffff").trial, (TrialId{2, 1}));
  EXPECT_EQ(
      store_.CheckpointByPrefix("aaaabbbb-6f4c-4a38-9d6c-3f1a5b2c7d8e").batches,
      100);
}

TEST_F(CheckpointByPrefixTest, RefusesUnknownAndAmbiguousPrefixes) {
  ExpectRefusal("aaaa", ErrorKind::kUsage, "fits several");
  ExpectRefusal("aaa", ErrorKind::kUsage, "at least 4");
  ExpectRefusal("beef", ErrorKind::kNotFound, "checkpoint 'beef'");
  ExpectRefusal("%%%%", ErrorKind::kNotFound, "is not in store");
}

class StoreProfilesTest : public testing::Test {
 protected:
  StoreProfilesTest() { AddSample(store_, /*trials=*/2); }

  void Add(const ProfileReport& profile, std::int64_t trial = 1) {
    store_.Write([&](StoreWriter& writer) {
      writer.AddProfile({1, trial}, profile);
    });
  }
  std::optional<ProfileReport> Sums(std::int64_t trial = 1) {
    return store_.Profile({1, trial});
  }

  Store store_ = Store::OpenForWriting(StoreLayout(":memory:"));
  const ProfileReport first_{.batches = 100,
                             .trained = 100,
                             .samples = 6'400,
                             .seconds = {1, 2, 3, 9, 4, 5, 6, 7, 8},
                             .minor_faults = 12,
                             .peak_bytes = 2'000,
                             .gpu_bytes = 70,
                             .gpu_percent = 90,
                             .time = Timestamp(5)};
  const ProfileReport second_{.batches = 150,
                              .trained = 50,
                              .samples = 3'200,
                              .seconds = {0.5, 0, 0, 1, 0, 0, 0, 0, 0.25},
                              .minor_faults = 3,
                              .peak_bytes = 1'000,
                              .gpu_bytes = 60,
                              .gpu_percent = 95,
                              .time = Timestamp(6)};
};

TEST_F(StoreProfilesTest, UnknownTrialHasNoProfile) {
  EXPECT_THROW(Add(first_, 3), Error);
  EXPECT_EQ(Sums(3), std::nullopt);
  EXPECT_EQ(Sums(1), std::nullopt);
}

TEST_F(StoreProfilesTest, ReportsAreSummedUp) {
  Add(first_);
  Add(second_);

  const auto sums = Sums();

  ASSERT_TRUE(sums);
  EXPECT_EQ(sums->batches, 150);
  EXPECT_EQ(sums->trained, 150);
  EXPECT_EQ(sums->samples, 9'600);
  EXPECT_EQ(sums->seconds, (PhaseSeconds{1.5, 2, 3, 10, 4, 5, 6, 7, 8.25}));
  EXPECT_EQ(sums->minor_faults, 15);
  EXPECT_EQ(sums->peak_bytes, 2'000);
  EXPECT_EQ(sums->gpu_bytes, 70);
  EXPECT_EQ(sums->gpu_percent, 93);
  EXPECT_EQ(sums->time, Timestamp(6));
  EXPECT_EQ(Sums(2), std::nullopt);
}

TEST_F(StoreProfilesTest, HasNoGpuValuesWithoutAGpu) {
  Add({.batches = 1, .trained = 1});

  EXPECT_EQ(Sums()->gpu_bytes, std::nullopt);
  EXPECT_EQ(Sums()->gpu_percent, std::nullopt);
}

TEST_F(StoreProfilesTest, RepeatedReportReplacesThePreviousOne) {
  Add(first_);
  Add(first_);

  EXPECT_EQ(Sums()->trained, 100);
  EXPECT_EQ(Sums()->seconds[0], 1);
}

TEST_F(StoreProfilesTest, SumsSaturate) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  const double nan = std::nan("");
  Add({.batches = 1, .samples = kMax, .seconds = {nan}, .minor_faults = kMax});
  Add({.batches = 2, .samples = kMax, .seconds = {1}, .minor_faults = kMax});

  EXPECT_EQ(Sums()->samples, kMax);
  EXPECT_EQ(Sums()->minor_faults, kMax);
  EXPECT_EQ(Sums()->seconds[0], 1);
}

TEST_F(StoreProfilesTest, RestartForgetsReportsBeyondTheCheckpoint) {
  Add(first_);
  Add(second_);
  Add(second_, 2);

  store_.Write([](StoreWriter& writer) {
    writer.TruncateProfile({1, 1}, 100);
  });

  EXPECT_EQ(Sums()->trained, 100);
  EXPECT_EQ(Sums(2)->trained, 50);
}

TEST_F(StoreProfilesTest, ProfilesAreDeletedWithTheExperiment) {
  Add(first_);

  store_.Write([](StoreWriter& writer) { writer.DeleteExperiment(1); });

  EXPECT_EQ(Sums(), std::nullopt);
  EXPECT_TRUE(store_.Problems().empty());
}

}  // namespace

}  // namespace dtrain

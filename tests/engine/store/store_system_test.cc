#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/store/store.h"
#include "tests/engine/store/sample_rows.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class StoreSystemTest : public testing::Test {
 protected:
  StoreSystemTest() { AddSample(store_, /*trials=*/2); }

  // Adds samples at the times `from` up to `until`, each of 5 s and 1 s of CPU.
  void Add(std::int64_t from, std::int64_t until, std::int64_t trial = 1,
           int rank = 0) {
    store_.Write([&](StoreWriter& writer) {
      for (std::int64_t i = from; i < until; ++i) {
        writer.AddSystemSample(
            {1, trial},
            {.rank = rank,
             .time = Timestamp(i),
             .sample = {.seconds = 5,
                        .cpu_seconds = 1,
                        .processes = 1,
                        .memory_bytes = i,
                        .gpus = {{.gpu = 0, .percent = 40, .watts = 100},
                                 {.gpu = 1, .percent = 20}}}});
      }
    });
  }
  std::vector<SystemRow> Rows(std::int64_t trial = 1) const {
    return store_.SystemSamples({1, trial});
  }
  static std::int64_t CountSamples(const std::vector<SystemRow>& rows) {
    std::int64_t count = 0;
    for (const SystemRow& row : rows) count += row.sample.samples;
    return count;
  }

  Store store_ = Store::OpenForWriting(StoreLayout(":memory:"));
};

TEST_F(StoreSystemTest, ReturnsRowsWithTheirGpus) {
  Add(3, 5);
  Add(4, 5, /*trial=*/1, /*rank=*/8);

  const auto rows = Rows();

  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[1].time, Timestamp(4));
  EXPECT_EQ(rows[1].rank, 0);
  EXPECT_EQ(rows[2].rank, 8);
  EXPECT_EQ(rows[2].sample.memory_bytes, 4);
  EXPECT_EQ(rows[2].sample.read_bytes, std::nullopt);
  ASSERT_THAT(rows[2].sample.gpus, SizeIs(2));
  EXPECT_EQ(rows[2].sample.gpus[0].watts, 100);
  EXPECT_EQ(rows[2].sample.gpus[1].percent, 20);
  EXPECT_EQ(rows[2].sample.gpus[1].watts, std::nullopt);
  EXPECT_THAT(Rows(2), IsEmpty());
}

TEST_F(StoreSystemTest, KeepsAtMostAThousandRows) {
  Add(1, 1000);
  EXPECT_THAT(Rows(), SizeIs(999));

  Add(1000, 1001);

  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(500));
  EXPECT_EQ(CountSamples(rows), 1000);
  EXPECT_EQ(rows.front().time, Timestamp(2));
  EXPECT_EQ(rows.front().sample.seconds, 10);
  ASSERT_THAT(rows.front().sample.gpus, SizeIs(2));
  EXPECT_EQ(rows.front().sample.gpus[0].percent, 40);
  EXPECT_EQ(rows.back().time, Timestamp(1000));
}

// Later rows span as much as those before, whichever process adds them.
TEST_F(StoreSystemTest, DoublesTheIntervalOfFurtherRows) {
  Add(1, 1001);
  Add(1001, 1004);

  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(502));
  EXPECT_EQ(rows[500].sample.samples, 2);
  EXPECT_EQ(rows[500].time, Timestamp(1002));
  EXPECT_EQ(rows[500].sample.memory_bytes, 1002);
  EXPECT_EQ(rows[501].sample.samples, 1);

  Add(1004, 10'001);
  EXPECT_EQ(CountSamples(Rows()), 10'000);
  EXPECT_LE(Rows().size(), 1000U);
  EXPECT_EQ(Rows().front().sample.samples, 16);
  EXPECT_EQ(store_.FindSystemUse(1)->cpu_seconds, 10'000);
}

// A sample of no period, and one of the same time as the last.
TEST_F(StoreSystemTest, ExtendsTheLastRow) {
  Add(1, 3);
  Add(2, 3);
  store_.Write([](StoreWriter& writer) {
    writer.AddSystemSample(
        {1, 1},
        {.time = Timestamp(7),
         .sample = {
             .samples = 0, .seconds = 1, .cpu_seconds = 3, .processes = 1}});
  });

  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[1].time, Timestamp(7));
  EXPECT_EQ(rows[1].sample.samples, 1);
  EXPECT_EQ(rows[1].sample.seconds, 11);
  EXPECT_EQ(rows[1].sample.cpu_seconds, 5);
  ASSERT_THAT(rows[1].sample.gpus, SizeIs(2));
  EXPECT_EQ(rows[1].sample.gpus[0].percent, 40);
}

TEST_F(StoreSystemTest, MergesOnlyRowsOfOneMachine) {
  Add(1, 999);
  Add(1, 3, /*trial=*/1, /*rank=*/4);

  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(500));
  EXPECT_EQ(rows[498].rank, 0);
  EXPECT_EQ(rows[499].rank, 4);
  EXPECT_EQ(rows[499].sample.samples, 2);
}

TEST_F(StoreSystemTest, SummarizesATrialOrAll) {
  EXPECT_EQ(store_.FindSystemUse(1), std::nullopt);
  Add(1, 3);
  Add(9, 10, /*trial=*/2);
  store_.Write([](StoreWriter& writer) {
    writer.AddSystemSample(
        {1, 2},
        {.time = Timestamp(10),
         .sample = {.seconds = 30,
                    .cpu_seconds = 2,
                    .memory_bytes = 4,
                    .pss_bytes = 3,
                    .read_bytes = 7,
                    .gpus = {{.gpu = 0, .percent = 100, .celsius = 61}}}});
  });

  const auto all = store_.FindSystemUse(1);
  const auto second = store_.FindSystemUse(1, 2);

  ASSERT_TRUE(all && second);
  EXPECT_EQ(all->seconds, 45);
  EXPECT_EQ(all->cpu_seconds, 5);
  EXPECT_EQ(all->memory_bytes, 9);
  EXPECT_EQ(all->read_bytes, 7);
  EXPECT_EQ(all->written_bytes, std::nullopt);
  EXPECT_EQ(all->gpu_percent, (3 * 5 * (40.0 + 20) + 30 * 100) / (30 + 30));
  EXPECT_EQ(all->gpu_watts, 100);
  EXPECT_EQ(all->gpu_celsius, 61);
  EXPECT_EQ(second->seconds, 35);
  EXPECT_EQ(second->pss_bytes, 3);
  EXPECT_EQ(store_.FindSystemUse(1, 3), std::nullopt);
  const auto uses = store_.SystemUses(1);
  ASSERT_THAT(uses, SizeIs(2));
  EXPECT_EQ(uses.at(1).seconds, 10);
  EXPECT_EQ(uses.at(1).gpu_percent, 30);
  EXPECT_EQ(uses.at(2).seconds, 35);
  EXPECT_EQ(uses.at(2).pss_bytes, 3);
  EXPECT_EQ(uses.at(2).gpu_percent, second->gpu_percent);
}

TEST_F(StoreSystemTest, DeletedExperimentLeavesNothing) {
  const TemporaryDirectory directory;
  Store store = Store::OpenForWriting(StoreLayout(directory.path() / "store"));
  AddSample(store, /*trials=*/1);
  store.Write([](StoreWriter& writer) {
    writer.AddSystemSample({1, 1}, {.sample = {.gpus = {{.gpu = 0}}}});
    writer.DeleteExperiment(1);
  });

  EXPECT_THAT(store.Problems(), IsEmpty());
  EXPECT_THAT(store.SystemSamples({1, 1}), IsEmpty());
}

TEST_F(StoreSystemTest, UnknownTrialIsRefused) {
  EXPECT_THROW(Add(1, 2, /*trial=*/3), Error);
}

}  // namespace
}  // namespace dtrain

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/store/store.h"
#include "tests/engine/store/sample_rows.h"

namespace dtrain {
namespace {

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

TEST_F(StoreProfilesTest, TrialThatIsNotThereIsNotProfiled) {
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

TEST_F(StoreProfilesTest, WithoutAGpuThereIsNothingOfOne) {
  Add({.batches = 1, .trained = 1});

  EXPECT_EQ(Sums()->gpu_bytes, std::nullopt);
  EXPECT_EQ(Sums()->gpu_percent, std::nullopt);
}

TEST_F(StoreProfilesTest, WhatIsReportedAgainReplacesItself) {
  Add(first_);
  Add(first_);

  EXPECT_EQ(Sums()->trained, 100);
  EXPECT_EQ(Sums()->seconds[0], 1);
}

TEST_F(StoreProfilesTest, SumsBeyondAnyNumberAreTheGreatest) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  const double nan = std::nan("");
  Add({.batches = 1,
       .samples = kMost,
       .seconds = {nan},
       .minor_faults = kMost});
  Add({.batches = 2, .samples = kMost, .seconds = {1}, .minor_faults = kMost});

  EXPECT_EQ(Sums()->samples, kMost);
  EXPECT_EQ(Sums()->minor_faults, kMost);
  EXPECT_EQ(Sums()->seconds[0], 1);
}

TEST_F(StoreProfilesTest, GoingBackForgetsWhatLiesBeyond) {
  Add(first_);
  Add(second_);
  Add(second_, 2);

  store_.Write([](StoreWriter& writer) {
    writer.TruncateProfile({1, 1}, 100);
  });

  EXPECT_EQ(Sums()->trained, 100);
  EXPECT_EQ(Sums(2)->trained, 50);
}

TEST_F(StoreProfilesTest, DeletedExperimentTakesItsProfilesWithIt) {
  Add(first_);

  store_.Write([](StoreWriter& writer) { writer.DeleteExperiment(1); });

  EXPECT_EQ(Sums(), std::nullopt);
  EXPECT_TRUE(store_.Problems().empty());
}

}  // namespace
}  // namespace dtrain

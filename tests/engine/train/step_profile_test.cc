#include "engine/train/step_profile.h"

#include <cstddef>

#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using std::chrono::seconds;

class StepProfileTest : public testing::Test {
 protected:
  void Spend(int count) { time_ += seconds(count); }
  // `count` seconds in a phase.
  void Spend(Phase phase, int count) {
    const StepProfile::Scope scope(&profile_, phase);
    Spend(count);
  }

  Duration time_{0};
  StepProfile profile_{Clock{.now = [] { return Timestamp(42); },
                             .monotonic = [this] { return time_; }}};
};

TEST_F(StepProfileTest, WithoutAProfileNothingIsMeasured) {
  const StepProfile::Scope scope(nullptr, Phase::kData);
  Spend(1);

  EXPECT_EQ(profile_.Drain(0).seconds[0], 0);
}

TEST_F(StepProfileTest, EveryPhaseHasItsOwnTime) {
  Spend(Phase::kData, 1);
  Spend(Phase::kForward, 2);
  Spend(Phase::kBackward, 3);
  Spend(Phase::kExchange, 9);
  Spend(Phase::kOptimizer, 4);
  Spend(Phase::kReport, 5);
  Spend(Phase::kValidation, 6);
  Spend(Phase::kCheckpoint, 7);
  Spend(Phase::kData, 10);
  Spend(8);

  const ProfileReport report = profile_.Drain(100);

  EXPECT_EQ(report.seconds, (PhaseSeconds{11, 2, 3, 9, 4, 5, 6, 7, 8}));
  EXPECT_EQ(report.wall_seconds(), 55);
  EXPECT_EQ(report.batches, 100);
  EXPECT_EQ(report.time, Timestamp(42));
}

TEST_F(StepProfileTest, InnerTimeIsExcludedFromTheOuterPhase) {
  {
    const StepProfile::Scope forward(&profile_, Phase::kForward);
    Spend(1);
    {
      const StepProfile::Scope backward(&profile_, Phase::kBackward);
      Spend(2);
      Spend(Phase::kOptimizer, 4);
      Spend(8);
    }
    Spend(16);
  }
  Spend(32);

  EXPECT_EQ(profile_.Drain(1).seconds,
            (PhaseSeconds{0, 17, 10, 0, 4, 0, 0, 0, 32}));
}

TEST_F(StepProfileTest, ExceptionsEndTheirScopes) {
  try {
    const StepProfile::Scope scope(&profile_, Phase::kForward);
    Spend(1);
    throw 1;
  } catch (int) {
  }
  Spend(2);

  EXPECT_EQ(profile_.Drain(1).seconds,
            (PhaseSeconds{0, 1, 0, 0, 0, 0, 0, 0, 2}));
}

TEST_F(StepProfileTest, WaitingForTheRunnerIsNotCounted) {
  Spend(Phase::kIdle, 100);
  Spend(1);

  EXPECT_EQ(profile_.Drain(1).wall_seconds(), 1);
}

TEST_F(StepProfileTest, TakeRestartsWithinTheSamePhase) {
  const StepProfile::Scope scope(&profile_, Phase::kReport);
  profile_.AddBatch(64);
  profile_.AddBatch(36);
  Spend(1);
  EXPECT_EQ(profile_.trained(), 2);
  const ProfileReport first = profile_.Drain(2);
  Spend(2);
  const ProfileReport second = profile_.Drain(2);

  EXPECT_EQ(first.trained, 2);
  EXPECT_EQ(first.samples, 100);
  EXPECT_EQ(first.wall_seconds(), 1);
  EXPECT_EQ(second.trained, 0);
  EXPECT_EQ(second.samples, 0);
  EXPECT_EQ(second.seconds[static_cast<std::size_t>(Phase::kReport)], 2);
  EXPECT_EQ(profile_.trained(), 0);
}

TEST_F(StepProfileTest, FaultsOfTheIntervalAreCounted) {
  constexpr std::size_t kPages = 512;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  (void)profile_.Drain(0);
  void* memory = ::mmap(nullptr, kPages * page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ::madvise(memory, kPages * page, MADV_NOHUGEPAGE);
  for (std::size_t i = 0; i < kPages; ++i) {
    static_cast<volatile char*>(memory)[i * page] = 1;
  }
  const ProfileReport report = profile_.Drain(1);
  ::munmap(memory, kPages * page);

  EXPECT_GE(report.minor_faults, 512);
  EXPECT_LT(profile_.Drain(1).minor_faults, 512);
  EXPECT_GE(report.peak_bytes, static_cast<std::int64_t>(kPages * page));
}

}  // namespace
}  // namespace dtrain

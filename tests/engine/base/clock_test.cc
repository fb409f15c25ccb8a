#include "engine/base/clock.h"

#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(ClockTest, SystemTimeIsOfThisCentury) {
  const Clock clock = Clock::System();

  EXPECT_GT(clock.now(), Timestamp(1'700'000'000'000'000));
  EXPECT_LT(clock.now(), Timestamp(4'102'444'800'000'000));
}

TEST(ClockTest, MonotonicTimeNeverGoesBack) {
  const Clock clock = Clock::System();

  const Duration first = clock.monotonic();

  EXPECT_GE(clock.monotonic(), first);
}

}  // namespace
}  // namespace dtrain

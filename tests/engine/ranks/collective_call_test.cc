#include "engine/ranks/collective_call.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::ElementsAre;

template <typename T>
std::vector<T> ReduceThree(const std::vector<T>& a, const std::vector<T>& b,
                           const std::vector<T>& c, ReduceOp op) {
  std::vector<T> into(a.size());
  const std::array<const T*, 3> sources = {a.data(), b.data(), c.data()};
  Reduce<T>(sources, op, into);
  return into;
}

TEST(ReduceTest, PropagatesNan) {
  const float nan = std::nanf("");
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kSum}) {
    const std::vector<float> all =
        ReduceThree<float>({nan, 1, 1, 1}, {1, nan, 1, 1}, {1, 1, nan, 1}, op);
    EXPECT_TRUE(std::isnan(all[0]) && std::isnan(all[1]) && std::isnan(all[2]));
    EXPECT_FALSE(std::isnan(all[3]));
  }
}

TEST(ReduceTest, FindsMinimumAndMaximum) {
  EXPECT_THAT(
      ReduceThree<float>({1, 2, 3}, {2, 3, 1}, {3, 1, 2.5F}, ReduceOp::kMin),
      ElementsAre(1, 1, 1));
  EXPECT_THAT(
      ReduceThree<float>({1, 2, 3}, {2, 3, 1}, {3, 1, 2.5F}, ReduceOp::kMax),
      ElementsAre(3, 3, 3));
}

TEST(ReduceTest, IntegersWrapAround) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();

  EXPECT_THAT(ReduceThree<std::int64_t>({kMax}, {1}, {0}, ReduceOp::kSum),
              ElementsAre(kMin));
  EXPECT_THAT(ReduceThree<std::int64_t>({kMax}, {2}, {1}, ReduceOp::kProduct),
              ElementsAre(-2));
}

TEST(ReduceTest, ReducesInOrder) {
  EXPECT_THAT(ReduceThree<float>({1e8F}, {-1e8F}, {1}, ReduceOp::kSum),
              ElementsAre(1));
  EXPECT_THAT(ReduceThree<float>({1}, {1e8F}, {-1e8F}, ReduceOp::kSum),
              ElementsAre(0));
}

}  // namespace
}  // namespace dtrain

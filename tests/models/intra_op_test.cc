#include "models/ops/intra_op.h"

#include <array>
#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>
#include <torch/utils.h>

namespace dtrain {
namespace {

TEST(ForEachPartTest, RethrowsTheErrorOfAPart) {
  torch::set_num_threads(2);
  std::atomic<int> done = 0;
  EXPECT_THROW(ForEachPart(4,
                           [&](std::int64_t part) {
                             if (part == 1) throw std::runtime_error("no");
                             ++done;
                           }),
               std::runtime_error);
  EXPECT_EQ(done, 3);
}

TEST(ForEachPartTest, DoesNothingForNoParts) {
  ForEachPart(0, [](std::int64_t) { FAIL(); });
}

TEST(ForEachPartTest, DoesEachPartOnce) {
  torch::set_num_threads(2);
  std::array<std::atomic<int>, 5> calls{};
  ForEachPart(5, [&](std::int64_t part) { ++calls[part]; });
  for (const auto& count : calls) EXPECT_EQ(count, 1);
}

TEST(ForEachPartTest, UsesTorchsThreads) {
  const auto threads = [] {
    std::mutex mutex;
    std::set<std::thread::id> seen;
    ForEachPart(4, [&](std::int64_t) {
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
    return seen.size();
  };
  torch::set_num_threads(1);
  EXPECT_EQ(threads(), 1);
  torch::set_num_threads(2);
  EXPECT_EQ(threads(), 2);
}

TEST(ForEachPartTest, NestedCallsStayInOneThread) {
  torch::set_num_threads(2);
  std::atomic<int> other_threads = 0;
  ForEachPart(2, [&](std::int64_t) {
    const auto self = std::this_thread::get_id();
    ForEachPart(2, [&](std::int64_t) {
      if (std::this_thread::get_id() != self) ++other_threads;
    });
  });
  EXPECT_EQ(other_threads, 0);
}

}  // namespace
}  // namespace dtrain

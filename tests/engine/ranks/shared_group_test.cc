#include "engine/ranks/shared_group.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <tuple>

#include <sys/mman.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/engine/ranks/rank_values.h"
#include "tests/engine/ranks/run_ranks.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using testing::Each;
using testing::Values;

// Values of float32: of one segment, around it, and of several.
constexpr std::array<std::size_t, 11> kSizes = {
    0, 1, 2, 15, 17, 1000, 131'071, 131'072, 131'073, 400'001, 3};

class SharedGroupTest
    : public testing::TestWithParam<std::tuple<RankKind, int>> {
 protected:
  int ranks() const { return std::get<1>(GetParam()); }
  // `body` as each rank; all of them are to return `value`.
  void ExpectOfAll(const std::string& value,
                   const std::function<std::string(const Seat&)>& body) {
    const auto results = RunRanks(std::get<0>(GetParam()), ranks(), body);
    // Not by Each(Eq()): it would print megabytes.
    for (const RankResult& result : results) {
      EXPECT_EQ(result.error, "");
      EXPECT_TRUE(result.value == value)
          << "rank " << &result - results.data() << " has other "
          << result.value.size() << " bytes";
    }
  }
  // Reduces values of type T; the results are to be those of `combine`.
  template <typename T, typename Combine>
  void ExpectReduced(ReduceOp op, Combine combine) {
    constexpr std::size_t kSize = 300'001;
    ExpectOfAll(BytesOf(Combined<T>(ranks(), kSize, 0, combine)),
                [op](const Seat& seat) {
                  SharedGroup group = seat.Group();
                  auto values = RankValues<T>(seat.rank(), kSize);
                  group.AllReduce(values, op);
                  return BytesOf(values);
                });
  }
};

TEST_P(SharedGroupTest, SumsInTheOrderOfTheRanksToTheBit) {
  std::string expected;
  for (const std::size_t size : kSizes) {
    expected += BytesOf(Combined<float>(ranks(), size));
  }

  ExpectOfAll(expected, [](const Seat& seat) {
    SharedGroup group = seat.Group();
    std::string sums;
    for (const std::size_t size : kSizes) {
      std::vector<float> values = RankValues<float>(seat.rank(), size);
      group.AllReduce(values);
      sums += BytesOf(values);
    }
    return sums;
  });
}

TEST_P(SharedGroupTest, SumsDoubles) {
  ExpectReduced<double>(ReduceOp::kSum, std::plus<double>());
}

TEST_P(SharedGroupTest, SumsWholeNumbers) {
  ExpectReduced<std::int64_t>(ReduceOp::kSum, std::plus<std::int64_t>());
}

TEST_P(SharedGroupTest, Multiplies) {
  ExpectReduced<float>(ReduceOp::kProduct, std::multiplies<float>());
}

TEST_P(SharedGroupTest, FindsTheLeast) {
  ExpectReduced<float>(ReduceOp::kMin,
                       [](float a, float b) { return std::min(a, b); });
}

TEST_P(SharedGroupTest, FindsTheGreatest) {
  ExpectReduced<std::int64_t>(ReduceOp::kMax,
                              [](auto a, auto b) { return std::max(a, b); });
}

TEST_P(SharedGroupTest, BroadcastsWhatTheRootHas) {
  const int root = ranks() - 1;
  std::string expected;
  for (const std::size_t size : kSizes) expected += RankText(root, size * 4);

  ExpectOfAll(expected, [root](const Seat& seat) {
    SharedGroup group = seat.Group();
    std::string all;
    for (const std::size_t size : kSizes) {
      std::string text = RankText(seat.rank(), size * 4);
      group.Broadcast(std::as_writable_bytes(std::span(text)), root);
      all += text;
    }
    return all;
  });
}

TEST_P(SharedGroupTest, BroadcastsATextOfTenMegabytes) {
  const std::string text = RankText(0, 10'000'000);

  ExpectOfAll(text, [&text](const Seat& seat) {
    SharedGroup group = seat.Group();
    return group.BroadcastText(seat.rank() == 0 ? text : "not read", 0);
  });
}

TEST_P(SharedGroupTest, BroadcastsAnEmptyText) {
  ExpectOfAll("", [](const Seat& seat) {
    SharedGroup group = seat.Group();
    return group.BroadcastText(seat.rank() == 0 ? "" : "not read", 0);
  });
}

TEST_P(SharedGroupTest, GathersBytesInTheOrderOfTheRanks) {
  constexpr std::size_t kSize = 2'500'001;
  std::string expected;
  for (int rank = 0; rank < ranks(); ++rank) expected += RankText(rank, kSize);

  ExpectOfAll(expected, [](const Seat& seat) {
    SharedGroup group = seat.Group();
    const std::string mine = RankText(seat.rank(), kSize);
    std::string all(kSize * static_cast<std::size_t>(seat.ranks()), ' ');
    group.AllGather(std::as_bytes(std::span(mine)),
                    std::as_writable_bytes(std::span(all)));
    return all;
  });
}

TEST_P(SharedGroupTest, GathersBytesInPlace) {
  std::string expected;
  for (int rank = 0; rank < ranks(); ++rank) expected += RankText(rank, 100);

  ExpectOfAll(expected, [](const Seat& seat) {
    SharedGroup group = seat.Group();
    std::string all(100 * static_cast<std::size_t>(seat.ranks()), ' ');
    const auto bytes = std::as_writable_bytes(std::span(all));
    const auto start = static_cast<std::size_t>(seat.rank()) * 100;
    all.replace(start, 100, RankText(seat.rank(), 100));
    group.AllGather(bytes.subspan(start, 100), bytes);
    return all;
  });
}

TEST_P(SharedGroupTest, GathersTextsOfAnyLength) {
  const auto size = [](int rank) {
    return static_cast<std::size_t>(rank) * 1'300'000;
  };
  std::string expected;
  for (int rank = 0; rank < ranks(); ++rank) {
    expected += RankText(rank, size(rank));
  }

  ExpectOfAll(expected, [&size](const Seat& seat) {
    SharedGroup group = seat.Group();
    std::string all;
    for (const std::string& text :
         group.AllGatherText(RankText(seat.rank(), size(seat.rank())))) {
      all += text;
    }
    return all;
  });
}

// A page that processes share, too, with a number in it.
class SharedNumber {
 public:
  SharedNumber()
      : page_(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  SharedNumber(const SharedNumber&) = delete;
  SharedNumber& operator=(const SharedNumber&) = delete;
  ~SharedNumber() { ::munmap(page_, 4096); }

  std::atomic<int>& operator*() const {
    return *static_cast<std::atomic<int>*>(page_);
  }

 private:
  void* page_;
};

TEST_P(SharedGroupTest, NobodyPassesOneOfManyBarriersBeforeAllHaveCome) {
  const SharedNumber came;
  ExpectOfAll("", [&came](const Seat& seat) {
    SharedGroup group = seat.Group();
    for (int i = 1; i <= 2000; ++i) {
      *came += 1;
      group.Barrier();
      const int now = *came;
      if (now < i * seat.ranks() || now >= (i + 1) * seat.ranks() + 1) {
        return "at barrier " + std::to_string(i) + ": " + std::to_string(now);
      }
    }
    return std::string();
  });
}

TEST_P(SharedGroupTest, WaitsForARankThatIsSlow) {
  const auto sum = Combined<float>(ranks(), 1000);

  ExpectOfAll(BytesOf(sum), [](const Seat& seat) {
    SharedGroup group = seat.Group();
    std::vector<float> values = RankValues<float>(seat.rank(), 1000);
    if (seat.rank() + 1 == seat.ranks()) {
      std::this_thread::sleep_for(milliseconds(350));
    }
    group.AllReduce(values);
    return BytesOf(values);
  });
}

// One call of many that follow each other, as `random` has it; what it gave.
std::string AnyCall(SharedGroup& group, int call, unsigned random) {
  const std::size_t size = random % 5 == 0 ? random % 600'000 : random % 50;
  const int root = static_cast<int>(random / 5) % group.ranks();
  std::string text = RankText(group.rank(), size, call);
  std::vector<float> values = RankValues<float>(group.rank(), size, call);
  switch (random / 1000 % 4) {
    case 0:
      group.AllReduce(values);
      return BytesOf(values);
    case 1:
      group.Broadcast(std::as_writable_bytes(std::span(text)), root);
      return text;
    case 2:
      return group.AllGatherText(text).at(static_cast<std::size_t>(root));
    default:
      return group.BroadcastText(text, root);
  }
}

// What AnyCall is to give.
std::string ExpectedOf(int ranks, int call, unsigned random) {
  const std::size_t size = random % 5 == 0 ? random % 600'000 : random % 50;
  const int root = static_cast<int>(random / 5) % ranks;
  if (random / 1000 % 4 == 0)
    return BytesOf(Combined<float>(ranks, size, call));
  return RankText(root, size, call);
}

TEST_P(SharedGroupTest, CallsOfAllKindsFollowEachOther) {
  constexpr int kCalls = 60;
  ExpectOfAll("", [](const Seat& seat) {
    SharedGroup group = seat.Group();
    std::mt19937 same(1);
    std::mt19937 own(static_cast<unsigned>(seat.rank()));
    for (int call = 0; call < kCalls; ++call) {
      const unsigned random = same();
      if (own() % 4 == 0) std::this_thread::sleep_for(milliseconds(1));
      if (AnyCall(group, call, random) !=
          ExpectedOf(seat.ranks(), call, random)) {
        return "call " + std::to_string(call) + " gave something else";
      }
    }
    return std::string();
  });
}

TEST_P(SharedGroupTest, TwoThreadsOfEachRankUseALaneEach) {
  const std::string sums = BytesOf(Combined<float>(ranks(), 300'000));

  ExpectOfAll(sums + RankText(0, 30'000, 199), [](const Seat& seat) {
    std::string reduced;
    std::thread gradients([&] {
      SharedGroup group = seat.Group({.lane = 1});
      const auto mine = RankValues<float>(seat.rank(), 300'000);
      for (int i = 0; i < 20; ++i) {
        std::vector<float> values = mine;
        group.AllReduce(values);
        reduced = BytesOf(values);
      }
    });
    SharedGroup group = seat.Group({.lane = 0});
    std::string told;
    for (int i = 0; i < 200; ++i) {
      told = group.BroadcastText(RankText(seat.rank(), 30'000, i), 0);
    }
    gradients.join();
    return reduced + told;
  });
}

std::string NameOf(
    const testing::TestParamInfo<std::tuple<RankKind, int>>& info) {
  constexpr std::array<const char*, 3> kKinds = {"Threads", "MappedThreads",
                                                 "Processes"};
  return kKinds.at(static_cast<std::size_t>(std::get<0>(info.param))) +
         std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Ranks, SharedGroupTest,
                         testing::Combine(Values(RankKind::kThreads,
                                                 RankKind::kMappedThreads,
                                                 RankKind::kProcesses),
                                          Values(1, 2, 3, 7)),
                         NameOf);

}  // namespace
}  // namespace dtrain

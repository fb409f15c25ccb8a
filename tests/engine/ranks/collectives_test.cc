#include "engine/ranks/collectives.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>

#include <gtest/gtest.h>

#include "tests/engine/ranks/run_ranks.h"

namespace dtrain {
namespace {

// Values of float32: of one segment, around it, and of several.
constexpr std::array<std::size_t, 11> kSizes = {
    0, 1, 2, 15, 17, 1000, 131'071, 131'072, 131'073, 400'001, 3};

class CollectivesTest : public AllRanksTest {
 protected:
  // Reduces values of type T; the results are to be those of `combine`.
  template <typename T, typename Combine>
  void ExpectReduced(ReduceOp op, Combine combine) {
    constexpr std::size_t kSize = 150'001;
    ExpectOfAll(ToBytes(Combined<T>(ranks(), kSize, 0, combine)),
                [op](const Seat& seat) {
                  const auto group = seat.Group();
                  auto values = RankValues<T>(seat.rank(), kSize);
                  group->AllReduce(values, op);
                  return ToBytes(values);
                });
  }
};

TEST_P(CollectivesTest, SumsInRankOrderBitIdentically) {
  std::string expected;
  for (const std::size_t size : kSizes) {
    expected += ToBytes(Combined<float>(ranks(), size));
  }

  ExpectOfAll(expected, [](const Seat& seat) {
    const auto group = seat.Group();
    std::string sums;
    for (const std::size_t size : kSizes) {
      std::vector<float> values = RankValues<float>(seat.rank(), size);
      group->AllReduce(values);
      sums += ToBytes(values);
    }
    return sums;
  });
}

TEST_P(CollectivesTest, SumsDoubles) {
  ExpectReduced<double>(ReduceOp::kSum, std::plus<double>());
}

TEST_P(CollectivesTest, SumsIntegers) {
  ExpectReduced<std::int64_t>(ReduceOp::kSum, std::plus<std::int64_t>());
}

TEST_P(CollectivesTest, Multiplies) {
  ExpectReduced<float>(ReduceOp::kProduct, std::multiplies<float>());
}

TEST_P(CollectivesTest, FindsTheMinimum) {
  ExpectReduced<float>(ReduceOp::kMin,
                       [](float a, float b) { return std::min(a, b); });
}

TEST_P(CollectivesTest, FindsTheMaximum) {
  ExpectReduced<std::int64_t>(ReduceOp::kMax,
                              [](auto a, auto b) { return std::max(a, b); });
}

TEST_P(CollectivesTest, BroadcastsFromTheRoot) {
  const int root = ranks() - 1;
  std::string expected;
  for (const std::size_t size : kSizes) expected += RankText(root, size * 4);

  ExpectOfAll(expected, [root](const Seat& seat) {
    const auto group = seat.Group();
    std::string all;
    for (const std::size_t size : kSizes) {
      std::string text = RankText(seat.rank(), size * 4);
      group->Broadcast(std::as_writable_bytes(std::span(text)), root);
      all += text;
    }
    return all;
  });
}

TEST_P(CollectivesTest, BroadcastsATextOfTenMegabytes) {
  const std::string text = RankText(0, 10'000'000);

  ExpectOfAll(text, [&text](const Seat& seat) {
    const auto group = seat.Group();
    return group->BroadcastText(seat.rank() == 0 ? text : "not read", 0);
  });
}

TEST_P(CollectivesTest, BroadcastsAnEmptyText) {
  ExpectOfAll("", [](const Seat& seat) {
    const auto group = seat.Group();
    return group->BroadcastText(seat.rank() == 0 ? "" : "not read", 0);
  });
}

TEST_P(CollectivesTest, GathersBytesInRankOrder) {
  constexpr std::size_t kSize = 600'001;
  std::string expected;
  for (int rank = 0; rank < ranks(); ++rank) expected += RankText(rank, kSize);

  ExpectOfAll(expected, [](const Seat& seat) {
    const auto group = seat.Group();
    const std::string mine = RankText(seat.rank(), kSize);
    std::string all(kSize * static_cast<std::size_t>(seat.ranks()), ' ');
    group->AllGather(std::as_bytes(std::span(mine)),
                     std::as_writable_bytes(std::span(all)));
    return all;
  });
}

TEST_P(CollectivesTest, GathersBytesInPlace) {
  std::string expected;
  for (int rank = 0; rank < ranks(); ++rank) expected += RankText(rank, 100);

  ExpectOfAll(expected, [](const Seat& seat) {
    const auto group = seat.Group();
    std::string all(100 * static_cast<std::size_t>(seat.ranks()), ' ');
    const auto bytes = std::as_writable_bytes(std::span(all));
    const auto start = static_cast<std::size_t>(seat.rank()) * 100;
    all.replace(start, 100, RankText(seat.rank(), 100));
    group->AllGather(bytes.subspan(start, 100), bytes);
    return all;
  });
}

TEST_P(CollectivesTest, GathersTextsOfAnyLength) {
  const auto size = [](int rank) {
    return static_cast<std::size_t>(rank) * 300'000;
  };
  std::string expected;
  for (int rank = 0; rank < ranks(); ++rank) {
    expected += RankText(rank, size(rank));
  }

  ExpectOfAll(expected, [&size](const Seat& seat) {
    const auto group = seat.Group();
    std::string all;
    for (const std::string& text :
         group->AllGatherText(RankText(seat.rank(), size(seat.rank())))) {
      all += text;
    }
    return all;
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectivesTest, AllRanks(), NameOfRanks);

}  // namespace
}  // namespace dtrain

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include <sys/mman.h>

#include <gtest/gtest.h>

#include "engine/ranks/collectives.h"
#include "tests/engine/ranks/run_ranks.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;

class GroupOrderTest : public AllRanksTest {};

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

TEST_P(GroupOrderTest, NoRankPassesABarrierEarly) {
  const SharedNumber came;
  ExpectOfAll("", [&came](const Seat& seat) {
    const auto group = seat.Group();
    for (int i = 1; i <= 2000; ++i) {
      *came += 1;
      group->Barrier();
      const int now = *came;
      if (now < i * seat.ranks() || now >= (i + 1) * seat.ranks() + 1) {
        return "at barrier " + std::to_string(i) + ": " + std::to_string(now);
      }
    }
    return std::string();
  });
}

TEST_P(GroupOrderTest, WaitsForASlowRank) {
  const auto sum = Combined<float>(ranks(), 1000);

  ExpectOfAll(ToBytes(sum), [](const Seat& seat) {
    const auto group = seat.Group();
    std::vector<float> values = RankValues<float>(seat.rank(), 1000);
    if (seat.rank() + 1 == seat.ranks()) {
      std::this_thread::sleep_for(milliseconds(350));
    }
    group->AllReduce(values);
    return ToBytes(values);
  });
}

// One call of many that follow each other, as `random` has it; what it gave.
std::string AnyCall(Collectives& group, int call, unsigned random) {
  const std::size_t size = random % 5 == 0 ? random % 300'000 : random % 50;
  const int root = static_cast<int>(random / 5) % group.ranks();
  std::string text = RankText(group.rank(), size, call);
  std::vector<float> values = RankValues<float>(group.rank(), size, call);
  switch (random / 1000 % 4) {
    case 0:
      group.AllReduce(values);
      return ToBytes(values);
    case 1:
      group.Broadcast(std::as_writable_bytes(std::span(text)), root);
      return text;
    case 2:
      return group.AllGatherText(text).at(static_cast<std::size_t>(root));
    default:
      return group.BroadcastText(text, root);
  }
}

// Returns the expected result of AnyCall.
std::string ExpectedResult(int ranks, int call, unsigned random) {
  const std::size_t size = random % 5 == 0 ? random % 300'000 : random % 50;
  const int root = static_cast<int>(random / 5) % ranks;
  if (random / 1000 % 4 == 0)
    return ToBytes(Combined<float>(ranks, size, call));
  return RankText(root, size, call);
}

TEST_P(GroupOrderTest, MixedCallsGiveCorrectResults) {
  constexpr int kCalls = 60;
  ExpectOfAll("", [](const Seat& seat) {
    const auto group = seat.Group();
    std::mt19937 same(1);
    std::mt19937 own(static_cast<unsigned>(seat.rank()));
    for (int call = 0; call < kCalls; ++call) {
      const unsigned random = same();
      if (own() % 4 == 0) std::this_thread::sleep_for(milliseconds(1));
      if (AnyCall(*group, call, random) !=
          ExpectedResult(seat.ranks(), call, random)) {
        return "call " + std::to_string(call) + " gave something else";
      }
    }
    return std::string();
  });
}

TEST_P(GroupOrderTest, TwoThreadsOfEachRankUseAChannelEach) {
  const std::string sums = ToBytes(Combined<float>(ranks(), 150'000));

  ExpectOfAll(sums + RankText(0, 30'000, 199), [](const Seat& seat) {
    std::string reduced;
    std::jthread gradients([&] {
      const auto group = seat.Group({.channel = 1});
      const auto mine = RankValues<float>(seat.rank(), 150'000);
      for (int i = 0; i < 20; ++i) {
        std::vector<float> values = mine;
        group->AllReduce(values);
        reduced = ToBytes(values);
      }
    });
    const auto group = seat.Group({.channel = 0});
    std::string told;
    for (int i = 0; i < 200; ++i) {
      told = group->BroadcastText(RankText(seat.rank(), 30'000, i), 0);
    }
    gradients.join();
    return reduced + told;
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, GroupOrderTest, AllRanks(), NameOfRanks);

}  // namespace
}  // namespace dtrain

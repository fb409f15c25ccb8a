#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/ranks/collectives.h"
#include "engine/ranks/shared_memory.h"
#include "tests/engine/ranks/run_ranks.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::Values;

class AbortTest : public testing::TestWithParam<RankKind> {
 protected:
  std::vector<RankResult> Run(
      int ranks, const std::function<std::string(const Seat&)>& body) {
    return RunRanks(GetParam(), ranks, body);
  }
  // The last rank calls `other`, the rest `usual`; all are to be told so.
  void ExpectDisagreement(const std::function<void(Collectives&)>& usual,
                          const std::function<void(Collectives&)>& other,
                          const std::string& text) {
    const auto results = Run(3, [&](const Seat& seat) {
      const auto group = seat.Group();
      group->Barrier();
      (seat.rank() == 2 ? other : usual)(*group);
      return std::string("nothing was said");
    });
    EXPECT_THAT(results, Each(Field(&RankResult::error, HasSubstr(text))));
  }
};

TEST_P(AbortTest, ReportsADifferentCall) {
  std::vector<float> values(250);
  ExpectDisagreement(
      [](Collectives& group) { group.BroadcastText("", 1); },
      [values](Collectives& group) mutable { group.AllReduce(values); },
      "rank 0 called a broadcast of a text from rank 1, but rank 2 called an "
      "all-reduce (sum of float32) of 1000 bytes");
}

TEST_P(AbortTest, ReportsADifferentSize) {
  std::vector<double> values(250);
  std::vector<double> fewer(249);
  ExpectDisagreement(
      [values](Collectives& group) mutable { group.AllReduce(values); },
      [fewer](Collectives& group) mutable { group.AllReduce(fewer); },
      "(sum of float64) of 2000 bytes, but rank 2 called an all-reduce (sum of "
      "float64) of 1992 bytes");
}

TEST_P(AbortTest, ReportsADifferentOperation) {
  std::vector<std::int64_t> values(1);
  ExpectDisagreement(
      [values](Collectives& group) mutable {
        group.AllReduce(values, ReduceOp::kMin);
      },
      [values](Collectives& group) mutable {
        group.AllReduce(values, ReduceOp::kMax);
      },
      "(minimum of int64) of 8 bytes, but rank 2 called an all-reduce "
      "(maximum of int64)");
}

TEST_P(AbortTest, ReportsADifferentRoot) {
  std::vector<std::byte> bytes(5);
  ExpectDisagreement(
      [bytes](Collectives& group) mutable { group.Broadcast(bytes, 0); },
      [bytes](Collectives& group) mutable { group.Broadcast(bytes, 1); },
      "a broadcast of 5 bytes from rank 0, but rank 2 called a broadcast of 5 "
      "bytes from rank 1");
}

TEST_P(AbortTest, MismatchedCallWritesNothing) {
  const auto results = Run(2, [](const Seat& seat) {
    const auto group = seat.Group();
    std::vector<float> values(100, 1.0F);
    try {
      if (seat.rank() == 0) values.resize(50);
      group->AllReduce(values);
    } catch (const Error&) {
    }
    return values == std::vector<float>(values.size(), 1.0F) ? "kept" : "lost";
  });

  EXPECT_THAT(results, Each(Field(&RankResult::value, "kept")));
}

TEST_P(AbortTest, AllCallsFailAfterAMismatch) {
  const auto results = Run(2, [](const Seat& seat) {
    const auto group = seat.Group();
    try {
      seat.rank() == 0 ? group->Barrier() : (void)group->AllGatherText("");
    } catch (const Error&) {
    }
    group->Barrier();
    return std::string();
  });

  EXPECT_THAT(results, Each(Field(&RankResult::error,
                                  HasSubstr("all-gather of texts"))));
}

TEST_P(AbortTest, WakesWaitingRanks) {
  const auto results = Run(3, [](const Seat& seat) {
    const auto group = seat.Group();
    group->Barrier();
    if (seat.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(20));
      group->SetAborted("out of memory");
    } else {
      group->Barrier();
    }
    return std::string("went on");
  });

  const RankResult told{.error = "rank 1 failed: out of memory"};
  EXPECT_THAT(results, ElementsAre(told, RankResult{.value = "went on"}, told));
}

TEST_P(AbortTest, WakesRanksOfTheOtherChannel) {
  const auto results = Run(2, [](const Seat& seat) {
    const auto group = seat.Group({.channel = seat.rank()});
    if (seat.rank() == 1) {
      group->SetAborted("no loss");
    } else {
      group->BroadcastText("", 0);
    }
    return std::string();
  });

  EXPECT_EQ(results[0].error, "rank 1 failed: no loss");
}

TEST_P(AbortTest, KeepsTheFirstReason) {
  const auto results = Run(1, [](const Seat& seat) {
    const auto group = seat.Group();
    group->SetAborted("first");
    group->SetAborted("second");
    group->Barrier();
    return std::string();
  });

  EXPECT_EQ(results[0].error, "rank 0 failed: first");
}

TEST_P(AbortTest, TruncatesALongReason) {
  const auto results = Run(1, [](const Seat& seat) {
    const auto group = seat.Group();
    group->SetAborted(std::string(5000, 'x'));
    group->Barrier();
    return std::string();
  });

  EXPECT_EQ(results[0].error, "rank 0 failed: " + std::string(1000, 'x'));
}

TEST_P(AbortTest, WorksWithTheMaximumNumberOfRanks) {
  const std::string sum = ToBytes(Combined<float>(kMaxRanks, 5000));

  const auto results = Run(kMaxRanks, [](const Seat& seat) {
    const auto group = seat.Group();
    std::vector<float> values = RankValues<float>(seat.rank(), 5000);
    group->AllReduce(values);
    return ToBytes(values);
  });

  EXPECT_TRUE(results == std::vector<RankResult>(kMaxRanks, {.value = sum}));
}

INSTANTIATE_TEST_SUITE_P(Ranks, AbortTest,
                         Values(RankKind::kThreads, RankKind::kProcesses,
                                RankKind::kNetworkThreads,
                                RankKind::kNetworkProcesses));

class GivingUpTest : public AbortTest {};

TEST_P(GivingUpTest, TimeoutOfOneRankAbortsAll) {
  const auto results = Run(3, [](const Seat& seat) {
    int asked = 0;
    const auto group =
        seat.Group({.give_up = [&asked] { return ++asked > 1; }});
    if (seat.rank() == 2) return std::string("never came");
    group->Barrier();
    return std::string();
  });

  EXPECT_THAT(results[0].error,
              HasSubstr("failed: gave up waiting for rank 2"));
  EXPECT_EQ(results[1].error, results[0].error);
}

INSTANTIATE_TEST_SUITE_P(Ranks, GivingUpTest,
                         Values(RankKind::kThreads, RankKind::kProcesses));

}  // namespace
}  // namespace dtrain

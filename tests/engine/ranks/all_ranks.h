#pragma once

#include <array>
#include <functional>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/engine/ranks/run_ranks.h"

namespace dtrain {

/// A test of ranks of each kind and of several numbers.
class AllRanksTest : public testing::TestWithParam<std::tuple<RankKind, int>> {
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
};

inline std::string NameOfRanks(
    const testing::TestParamInfo<std::tuple<RankKind, int>>& info) {
  constexpr std::array<const char*, 5> kKinds = {"Threads", "MappedThreads",
                                                 "Processes", "NetworkThreads",
                                                 "NetworkProcesses"};
  return kKinds.at(static_cast<std::size_t>(std::get<0>(info.param))) +
         std::to_string(std::get<1>(info.param));
}

/// Instantiates a child of AllRanksTest.
inline auto AllRanks() {
  using Kinds = std::tuple<RankKind, int>;
  return testing::Values(
      Kinds(RankKind::kThreads, 1), Kinds(RankKind::kThreads, 2),
      Kinds(RankKind::kThreads, 3), Kinds(RankKind::kThreads, 7),
      Kinds(RankKind::kMappedThreads, 3), Kinds(RankKind::kProcesses, 1),
      Kinds(RankKind::kProcesses, 2), Kinds(RankKind::kProcesses, 7),
      Kinds(RankKind::kNetworkThreads, 1), Kinds(RankKind::kNetworkThreads, 2),
      Kinds(RankKind::kNetworkThreads, 5),
      Kinds(RankKind::kNetworkProcesses, 2),
      Kinds(RankKind::kNetworkProcesses, 7));
}

}  // namespace dtrain

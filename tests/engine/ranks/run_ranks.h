#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/ranks/collectives.h"

namespace dtrain {

/// Ways to run the ranks of a test.
enum class RankKind {
  /// Threads that share one mapping, so that the thread sanitizer sees all
  /// accesses.
  kThreads,
  /// Threads with a mapping each.
  kMappedThreads,
  kProcesses,
  /// With connections, as on several machines.
  kNetworkThreads,
  kNetworkProcesses,
};

/// One rank of a test.
class Seat {
 public:
  using MakeGroup = std::function<std::unique_ptr<Collectives>(ChannelOptions)>;

  Seat(int rank, int ranks, MakeGroup make)
      : rank_(rank), ranks_(ranks), make_(std::move(make)) {}

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  std::unique_ptr<Collectives> Group(ChannelOptions options = {}) const {
    return make_(std::move(options));
  }

 private:
  int rank_;
  int ranks_;
  MakeGroup make_;
};

/// A rank's result, or the text of the Error that it ended with.
struct RankResult {
  std::string value;
  std::string error;

  bool operator==(const RankResult&) const = default;
};

/// Carries out `body` as each of `ranks` ranks, all at one time; a result for
/// each, in their order.
std::vector<RankResult> RunRanks(
    RankKind kind, int ranks,
    const std::function<std::string(const Seat&)>& body);

/// A test with each kind and several numbers of ranks.
class AllRanksTest : public testing::TestWithParam<std::tuple<RankKind, int>> {
 protected:
  int ranks() const { return std::get<1>(GetParam()); }
  // Runs `body` as each rank and expects `value` from all.
  void ExpectOfAll(const std::string& value,
                   const std::function<std::string(const Seat&)>& body) {
    const auto results = RunRanks(std::get<0>(GetParam()), ranks(), body);
    // Not Each(Eq()), which would print megabytes.
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

/// Parameters of a subclass of AllRanksTest.
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

/// Values of `rank` in the call number `call`, of very different magnitudes, so
/// that the bits of a sum depend on its order.
template <typename T>
std::vector<T> RankValues(int rank, std::size_t size, int call = 0) {
  // Knuth's generator: the standard's take too long without optimisation.
  std::uint64_t state = static_cast<std::uint64_t>(call * 100 + rank + 1);
  std::vector<T> values(size);
  for (T& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto number = static_cast<double>(static_cast<int>(state >> 32));
    value = static_cast<T>(number / (1U << (state >> 20) % 20));
  }
  return values;
}

/// The values of all ranks, combined in rank order.
template <typename T, typename Combine = std::plus<T>>
std::vector<T> Combined(int ranks, std::size_t size, int call = 0,
                        Combine combine = {}) {
  std::vector<T> all = RankValues<T>(0, size, call);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<T> values = RankValues<T>(rank, size, call);
    for (std::size_t i = 0; i < size; ++i) all[i] = combine(all[i], values[i]);
  }
  return all;
}

/// The bytes of `values`, for exact comparison.
template <typename T>
std::string ToBytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
}

/// A text that differs between ranks and calls.
inline std::string RankText(int rank, std::size_t size, int call = 0) {
  // The length divides no buffer size.
  std::string piece(997, ' ');
  for (std::size_t i = 0; i < piece.size(); ++i) {
    piece[i] =
        static_cast<char>(i * 7 + i / 99 + static_cast<std::size_t>(rank) * 31 +
                          static_cast<std::size_t>(call) * 5);
  }
  std::string text;
  while (text.size() < size) text += piece;
  text.resize(size);
  return text;
}

}  // namespace dtrain

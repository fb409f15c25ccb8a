#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/ranks/collectives.h"

namespace dtrain {

/// What ranks of a test are.
enum class RankKind {
  /// Threads with one view of the memory, so that a sanitizer of threads sees
  /// who writes what.
  kThreads,
  /// Threads that map the memory each for itself.
  kMappedThreads,
  kProcesses,
  /// By connections, as on several machines.
  kNetworkThreads,
  kNetworkProcesses,
};

/// What a rank of a test is given.
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

/// What a rank returned, or the text of the Error that it ended with.
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

}  // namespace dtrain

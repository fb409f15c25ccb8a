#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/os/socket.h"
#include "engine/os/unique_fd.h"
#include "engine/ranks/failure_line.h"
#include "engine/ranks/rank_memory.h"

namespace dtrain {

/// Ranks that one trial has at most on several machines: rank 0 has three
/// connections to each of them.
inline constexpr int kMaxNetworkRanks = 128;

/// A rank's connections to the others of a trial on several machines: all of
/// them meet at rank 0, which has a connection to each other rank for every
/// lane, and one more to tell of failures; the others have these to rank 0.
class RankConnections {
 public:
  /// By what it is for, a lane or kFailures, and by rank.
  static constexpr int kFailures = kLanes;
  using Sockets = std::array<std::vector<UniqueFd>, kLanes + 1>;

  RankConnections(int rank, int ranks, Sockets sockets)
      : rank_(rank),
        ranks_(ranks),
        lanes_(std::move(sockets)),
        failures_(rank, std::move(lanes_[kFailures])) {}

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  /// The socket of a lane to `peer`. REQUIRES: there is one.
  int Lane(int lane, int peer) const {
    return lanes_.at(static_cast<std::size_t>(lane))
        .at(static_cast<std::size_t>(peer))
        .get();
  }
  FailureLine& failures() { return failures_; }

 private:
  const int rank_;
  const int ranks_;
  Sockets lanes_;
  FailureLine failures_;
};

/// How the ranks of one start of a trial find each other.
struct NetworkMeeting {
  HostPort first;     // where rank 0 listens
  std::string token;  // a secret of theirs, which they prove to know
  int rank = 0;
  int ranks = 1;
  /// Asked about every 100 ms whether to wait no longer; may be empty.
  std::function<bool()> give_up;
};

/// Waits until all other ranks have connected to `listener`, which does not
/// block. Who does not prove that it has the token is turned away.
/// Throws Error(kFailed) if it gave up, naming who is missing.
/// REQUIRES: meeting.rank is 0.
std::unique_ptr<RankConnections> AwaitRanks(UniqueFd listener,
                                            const NetworkMeeting& meeting);

/// Connects to rank 0, which may come later than this rank does, and which has
/// to prove that it has the token, too. Throws Error(kFailed). REQUIRES:
/// meeting.rank is not 0.
std::unique_ptr<RankConnections> JoinRanks(const NetworkMeeting& meeting);

}  // namespace dtrain

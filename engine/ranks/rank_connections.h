#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/os/socket.h"
#include "engine/os/unique_fd.h"
#include "engine/ranks/abort_channel.h"
#include "engine/ranks/shared_memory.h"

namespace dtrain {

/// Largest number of ranks of a trial on several machines: rank 0 has three
/// connections to each of them.
inline constexpr int kMaxNetworkRanks = 128;

/// A rank's connections to the other ranks of a trial on several machines, in
/// the form of a star: rank 0 has a connection to each other rank for every
/// channel and one more for the AbortChannel.
class RankConnections {
 public:
  /// Sockets by purpose, a channel or kAbort, and by rank.
  static constexpr int kAbort = kChannels;
  using Sockets = std::array<std::vector<UniqueFd>, kChannels + 1>;

  RankConnections(int rank, int ranks, Sockets sockets)
      : rank_(rank),
        ranks_(ranks),
        sockets_(std::move(sockets)),
        abort_(rank, std::move(sockets_[kAbort])) {}

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  /// The socket of a channel to `peer`. REQUIRES: there is one.
  int Socket(int channel, int peer) const {
    return sockets_.at(static_cast<std::size_t>(channel))
        .at(static_cast<std::size_t>(peer))
        .get();
  }
  AbortChannel& abort_channel() { return abort_; }
  /// Name of the network interface by which the ranks of other machines are
  /// reached, "eth0"; empty if there are none.
  std::string Interface() const;

 private:
  const int rank_;
  const int ranks_;
  Sockets sockets_;
  AbortChannel abort_;
};

/// Address at which the ranks of one start of a trial meet: all others connect
/// to rank 0.
struct Rendezvous {
  HostPort first;     // address of rank 0
  std::string token;  // the ranks' secret, which they prove that they know
  int rank = 0;
  int ranks = 1;
  /// Called about every 100 ms while waiting; true ends it. May be empty.
  std::function<bool()> give_up;
};

/// Waits until all other ranks have connected to `listener`. A process that
/// does not prove that it has the token is disconnected. Throws Error(kFailed)
/// that names the missing ranks if it gave up. REQUIRES: rendezvous.rank is 0;
/// `listener` is non-blocking.
std::unique_ptr<RankConnections> AwaitRanks(UniqueFd listener,
                                            const Rendezvous& rendezvous);

/// Connects to rank 0, which may start later than this rank, and which must
/// prove that it has the token as well. Throws Error(kFailed).
/// REQUIRES: rendezvous.rank is not 0.
std::unique_ptr<RankConnections> JoinRanks(const Rendezvous& rendezvous);

}  // namespace dtrain

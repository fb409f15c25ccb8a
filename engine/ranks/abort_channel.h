#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// Reason of the failure of a rank that disconnects without one.
inline constexpr char kConnectionLost[] = "its connection was lost";

/// Reports the failure of a rank to the ranks on other machines, through
/// separate connections, because a channel may be in the middle of megabytes of
/// data. Rank 0 has one to every other rank and forwards failures; the others
/// have one to rank 0. Thread-safe.
class AbortChannel {
 public:
  /// `peers` by rank: non-blocking sockets, or none.
  AbortChannel(int rank, std::vector<UniqueFd> peers);

  /// Reports that this rank failed. Only the first failure counts.
  void Abort(std::string_view reason);
  /// Handles the loss of a channel's connection to `peer`, which has failed and
  /// may have reported why. Throws Error(kFailed) as ThrowIfAborted does.
  [[noreturn]] void ThrowDisconnected(int peer);
  /// Receives failures of the others. Throws Error(kFailed): "rank 1 failed:
  /// …".
  void ThrowIfAborted();
  /// Adds its sockets to the entries of a poll.
  void AddTo(std::vector<pollfd>& entries);

 private:
  struct Failure {
    int rank = 0;
    std::string reason;
  };

  struct Peer {
    UniqueFd socket;  // stays open until the end: another thread may poll it
    bool ended = false;
  };

  // With `mutex_` locked:
  void ReceiveAll();
  void Receive(int number, Peer& peer);
  void Record(Failure failure, int from);
  [[noreturn]] void Throw() const;

  const int rank_;
  std::mutex mutex_;
  std::vector<Peer> peers_;  // by rank
  std::optional<Failure> failure_;
};

}  // namespace dtrain

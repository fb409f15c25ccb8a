#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// What is said of a rank that is gone without a word.
inline constexpr char kConnectionLost[] = "its connection was lost";

/// How ranks on several machines tell each other that one has failed: by
/// connections of their own, as a lane may be in the midst of megabytes. Rank 0
/// has one to every other rank, and passes on what it hears; the others have
/// one to rank 0. Any thread.
class FailureLine {
 public:
  /// `peers` by rank, each with a socket that does not block, or none.
  FailureLine(int rank, std::vector<UniqueFd> peers);

  /// This rank fails; the first failure counts.
  void Fail(std::string_view reason);
  /// The connection to `peer` is lost, so it has failed: why, it may have said.
  /// Throws Error(kFailed) as ThrowIfFailed does.
  [[noreturn]] void ThrowLost(int peer);
  /// Takes in what the others said. Throws Error(kFailed), "rank 1 failed: …".
  void ThrowIfFailed();
  /// Adds what is to be waited for with whatever else is.
  void AddTo(std::vector<pollfd>& entries);

 private:
  struct Failure {
    int rank = 0;
    std::string reason;
  };

  struct Peer {
    UniqueFd socket;  // closed with the line: another thread may wait for it
    bool ended = false;
  };

  // With `mutex_` locked:
  void Listen();
  void Hear(int number, Peer& peer);
  void Take(Failure failure, int from);
  [[noreturn]] void Throw() const;

  const int rank_;
  std::mutex mutex_;
  std::vector<Peer> peers_;  // by rank
  std::optional<Failure> failure_;
};

}  // namespace dtrain

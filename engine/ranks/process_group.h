#pragma once

#include <memory>
#include <string>
#include <variant>

#include "engine/os/unique_fd.h"
#include "engine/ranks/collectives.h"
#include "engine/ranks/rank_connections.h"
#include "engine/ranks/shared_memory.h"

namespace dtrain {

/// The ranks of one start of a trial, as one of them sees it. They exchange
/// data through shared memory on one machine, or through connections between
/// several. Thread-safe.
class ProcessGroup {
 public:
  /// Opens the memory that MakeSharedMemory created. Throws Error(kFailed) if
  /// it is not that of `ranks` ranks. REQUIRES: 0 <= rank < ranks.
  ProcessGroup(const UniqueFd& memory, int rank, int ranks);
  /// Connects the ranks of several machines: rank 0 accepts the others'
  /// connections to `listener`, the others, which have none, connect to rank 0.
  /// Throws Error(kFailed).
  ProcessGroup(UniqueFd listener, const Rendezvous& rendezvous);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool on_one_machine() const { return host_.empty(); }
  /// The machine of rank 0, if there are several.
  const std::string& host() const { return host_; }

  /// Name of the network interface, "eth0", by which ranks on this machine
  /// reach ranks on other machines; empty if all ranks are on this machine.
  std::string Interface() const;

  /// Returns the collectives of a channel. Call it once for each channel; the
  /// result must not outlive this.
  std::unique_ptr<Collectives> OpenChannel(ChannelOptions options) const;

 private:
  int rank_;
  int ranks_;
  std::string host_;
  std::variant<SharedMemory, std::unique_ptr<RankConnections>> transport_;
};

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/deadlines.h"
#include "engine/nodes/distributed_env.h"
#include "engine/nodes/node_message.h"
#include "engine/nodes/placement.h"
#include "engine/nodes/worker_table.h"
#include "engine/os/poller.h"
#include "engine/os/process.h"
#include "engine/os/socket.h"
#include "engine/ranks/peer_proof.h"

namespace dtrain {

/// A worker is ready to run trials.
struct NodeJoined {
  int node = 0;
};
/// A worker is lost, with all its ranks.
struct NodeLost {
  int node = 0;
  std::string why;
};
/// A worker sent a message.
struct NodeReported {
  int node = 0;
  NodeReport report;
};
using NodeEvent = std::variant<NodeJoined, NodeLost, NodeReported>;

/// Listens for workers at an address of this machine; without a host, at all of
/// them. Throws Error(kResources) that names resources.listen.
UniqueFd ListenForWorkers(const HostPort& place);

/// Returns the address of the machine of the first of some workers, as the
/// others reach it, from their connections to this process: the address from
/// which it has connected. If that is on this machine, the one at which another
/// worker has reached this machine. The ends are empty for this process itself.
/// REQUIRES: `workers` is not empty.
std::string AddressOfFirst(const std::vector<ConnectionEnds>& workers);

/// The runner's connections to its workers: to any number, which come and go,
/// or to a fixed set, which were started with RANK and WORLD_SIZE. Accepts
/// those that prove that they know the secret, rejects those that were started
/// for something else, and detects lost ones. Node 0 is this process; the
/// number of another one is its RANK, or counts up. Only AwaitRanks and
/// SendShutdown block. One thread.
class Nodes {
 public:
  struct Options {
    HostPort place;       // to listen at
    std::string version;  // of dtrain
    SecretFile secret;    // created if a store has none
    // Of this process, RANK=0 of a fixed set; none: any workers may join.
    std::optional<RankClaim> claim = std::nullopt;
    bool all_here = false;  // the fixed set is on this machine
    Clock clock = Clock::System();
    std::string host = HostName();
    // Prints a line for the user about workers that join or are rejected; at
    // most one a minute about connections without the secret. May be empty.
    std::function<void(const std::string& line)> notice;
  };

  /// Listens. Throws Error(kResources) that names the variables or the key of
  /// the address, and as SecretFile::ReadOrMake, which is called when it
  /// listens.
  explicit Nodes(Options options);
  ~Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  /// Waits until all of the fixed set are connected. Throws Error(kResources)
  /// that names the missing ones after `patience`.
  void AwaitRanks(Duration patience);
  /// Sends the task to all workers that are or will be connected.
  void SetTask(WorkerTask task);

  /// Readable when `Serve` has work.
  int fd() const { return poller_.fd(); }
  /// Receives messages and runs timers.
  std::vector<NodeEvent> Serve();
  /// Latest time of the next call of `Serve`.
  std::optional<Duration> Deadline() const;

  /// Number of processes of the fixed set, this one included; 1: any workers
  /// may join.
  int world_size() const {
    return options_.claim ? options_.claim->world_size : 1;
  }
  bool is_fixed_set() const { return world_size() > 1; }
  bool all_here() const { return options_.all_here; }
  /// "RANK=1, RANK=3": those of the fixed set that are not connected.
  std::string AbsentRanks() const;

  /// Port that it listens on.
  int port() const { return port_; }
  /// Sets the number of slots of this machine, which is a worker without a
  /// connection; with 0 it is none.
  void OfferSlots(std::int64_t slots, bool gpus);
  /// Workers that are connected, without slots in use, by id.
  std::vector<WorkerRow> Workers() const;
  /// Number of slots that a worker offers; 0 if it takes no more trials.
  std::int64_t Capacity(int node) const;
  /// Address of the machine of the first of these shards, as the others reach
  /// it.
  std::string AddressFor(const std::vector<ShardPlace>& places) const;
  /// True if the worker has said that it drains.
  bool draining(int node) const;
  /// Sends a worker without trials away.
  void Dismiss(int node);

  /// "RANK=1 on HOST" or "worker NAME", for messages.
  std::string Described(int node) const;
  /// Name of its machine.
  const std::string& NodeHost(int node) const { return At(node).host; }
  /// Name of the worker, or of the machine.
  const std::string& MachineName(int node) const {
    return At(node).name.empty() ? At(node).host : At(node).name;
  }
  /// Prints a line for the user.
  void Notice(const std::string& line) const;
  const std::string& secret() const { return secret_; }

  /// Sends an order; dropped if the process is gone.
  void Send(int node, const NodeOrder& order);
  /// Makes all workers exit with success. Waits a few seconds until they have
  /// closed their connections.
  void SendShutdown();

 private:
  struct Node {
    std::unique_ptr<NodeChannel> channel;  // or none
    bool watched_for_writing = false;
    std::string host;
    std::int64_t slots = 0;
    ConnectionEnds ends;
    std::string name;
    std::string job;
    std::optional<Timestamp> until;
    WorkerState state = WorkerState::kJoining;
    bool gpus = false;
    bool dismissed = false;  // its end is expected
    Timestamp joined{0};
  };

  UniqueFd Listen() const;
  void Receive(ProvedPeer peer);
  void Admit(const WorkerHello& hello, std::unique_ptr<NodeChannel> channel);
  void SendTask(int number);
  void OnReport(int number, NodeChannel& channel, NodeReport report);
  void OnWorkerReady(int number, NodeChannel& channel,
                     const WorkerReady& ready);
  void RefuseWorker(int number, NodeChannel& channel, const std::string& why);
  std::string Refusal(const WorkerHello& hello) const;
  void OnReady(int number, const Poller::Ready& ready);
  void RunTimers();
  void Lose(int number, const std::string& why);
  void Connect(int number);
  void Watch(int number);
  Node& At(int number) { return nodes_[static_cast<std::size_t>(number)]; }
  const Node& At(int number) const {
    return nodes_[static_cast<std::size_t>(number)];
  }
  int LastNode() const { return static_cast<int>(nodes_.size()) - 1; }
  // Calls `work` with the node's channel. An Error loses the node.
  template <typename Work>
  void With(int number, const Work& work);

  Options options_;
  std::optional<WorkerTask> task_;
  Poller poller_;
  UniqueFd listener_;  // until `pending_` takes it
  int port_ = 0;
  std::string secret_;
  PendingConnections pending_;
  std::int64_t unreported_ = 0;        // rejected connections
  std::set<std::string> differences_;  // of workers, that were reported
  Duration rejection_reported_at_{0};
  std::vector<Node> nodes_;  // by RANK or id; the first is this process
  // When to look at a connected node next. May be too early, since a message
  // moves the time, but never too late.
  Deadlines<int> timers_;
  std::vector<NodeEvent> events_;
};

}  // namespace dtrain

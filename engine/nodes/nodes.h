#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/nodes/distributed_env.h"
#include "engine/nodes/node_message.h"
#include "engine/os/poller.h"
#include "engine/os/process.h"
#include "engine/ranks/peer_proof.h"

namespace dtrain {

/// A follower connected, for the first time or again.
struct NodeJoined {
  int node = 0;  // its RANK
};
/// A follower is lost, with all its ranks.
struct NodeLost {
  int node = 0;
  std::string why;
};
/// A follower sent a message.
struct NodeSaid {
  int node = 0;
  NodeReport report;
};
using NodeEvent = std::variant<NodeJoined, NodeLost, NodeSaid>;

/// The runner's connections to its followers on other machines. Accepts
/// followers that prove that they know the secret, rejects those that were
/// started for something else, and detects lost ones. Only Gather blocks. One
/// thread.
class Nodes {
 public:
  struct Options {
    DistributedEnv env;
    NodeIdentity identity;
    SecretFile secret;  // created if a store has none
    Clock clock = Clock::System();
    std::string host = HostName();
    // Prints a line for the user about followers that connect or are rejected;
    // at most one a minute about connections without the secret. May be empty.
    std::function<void(const std::string& line)> notice;
  };

  /// Listens. Throws Error(kResources) that names the variables, and as
  /// SecretFile::ReadOrMake, which is called when it listens.
  explicit Nodes(Options options);
  ~Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  /// Waits until all followers are connected. Throws Error(kResources) that
  /// names the missing ones after `patience`.
  void Gather(Duration patience);

  /// Readable when `Serve` has work.
  int fd() const { return poller_.fd(); }
  /// Receives messages and runs timers.
  std::vector<NodeEvent> Serve();
  /// Latest time of the next call of `Serve`.
  std::optional<Duration> Deadline() const;

  bool complete() const { return Missing().empty(); }
  /// "RANK=1, RANK=3": the followers that are not connected.
  std::string Missing() const;
  /// Number of trials that every follower can run at one time.
  std::int64_t trials() const;
  /// All RANKs, ordered by machine name: every experiment takes slots in this
  /// order, so that no two wait for each other.
  std::vector<int> SlotOrder() const;
  /// "RANK=1 on HOST", for messages.
  std::string Described(int node) const;
  /// Prints a line for the user.
  void Notice(const std::string& line) const;
  const DistributedEnv& env() const { return options_.env; }
  const NodeIdentity& identity() const { return options_.identity; }
  const std::string& secret() const { return secret_; }

  /// Sends an order; dropped if the follower is gone.
  void Send(int node, const NodeOrder& order);
  void SendAll(const NodeOrder& order);
  /// Makes all followers exit with success.
  void SendShutdown();

 private:
  struct Node {
    std::unique_ptr<NodeChannel> channel;  // or none
    std::int64_t trials = 1;
    std::string host;
  };

  UniqueFd Listen() const;
  void Receive(ProvedPeer peer);
  void Admit(const NodeHello& hello, std::unique_ptr<NodeChannel> channel);
  void ReportRejected();
  std::string Refusal(const NodeHello& hello) const;
  void OnReady(int number, const Poller::Ready& ready);
  void Lose(int number, const std::string& why);
  void Watch(int number);
  // Calls `work` with the node's channel. An Error loses the node.
  template <typename Work>
  void With(int number, const Work& work);

  Options options_;
  Poller poller_;
  UniqueFd listener_;  // until `pending_` takes it
  std::string secret_;
  PendingConnections pending_;
  std::int64_t unreported_ = 0;  // rejected connections
  Duration rejection_reported_at_{0};
  std::vector<Node> nodes_;  // by RANK; the first is this process
  std::vector<NodeEvent> events_;
};

}  // namespace dtrain

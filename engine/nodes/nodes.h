#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/nodes/node_message.h"
#include "engine/nodes/node_place.h"
#include "engine/os/poller.h"
#include "engine/os/process.h"
#include "engine/ranks/peer_proof.h"

namespace dtrain {

/// What a runner and its followers prove to each other that they are.
inline constexpr char kNodesPurpose[] = "runner and follower";

/// A follower is there, for the first time or again.
struct NodeJoined {
  int node = 0;  // its RANK
};
/// A follower is gone, with all ranks that it had.
struct NodeLost {
  int node = 0;
  std::string why;
};
/// A follower said something.
struct NodeSaid {
  int node = 0;
  NodeReport report;
};
using NodeEvent = std::variant<NodeJoined, NodeLost, NodeSaid>;

/// The runner's side of the processes that follow it on other machines: takes
/// their connections once they have proved that they know the secret, sees to
/// it that they were started for the same, and knows who is there. Never waits
/// but in Gather. One thread.
class Nodes {
 public:
  struct Options {
    NodePlace place;
    NodeIdentity identity;
    SecretFile secret;  // made where a store has none
    Clock clock = Clock::System();
    std::string host = HostName();
    // A line for the user, about who came and who was refused, of those without
    // the secret one a minute; may be empty.
    std::function<void(const std::string& line)> notice;
  };

  /// Listens. Throws Error(kResources) that names the variables, and as
  /// SecretFile::ReadOrMake, which is called when it listens.
  explicit Nodes(Options options);
  ~Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  /// Waits until all have come. Throws Error(kResources) that names those who
  /// have not after `patience`.
  void Gather(Duration patience);

  /// Readable when `Serve` has something to do.
  int fd() const { return poller_.fd(); }
  /// Takes in what has come, and does what is due.
  std::vector<NodeEvent> Serve();
  /// When `Serve` is to be called at the latest.
  std::optional<Duration> Deadline() const;

  bool complete() const { return Missing().empty(); }
  /// "RANK=1, RANK=3", of those who are not there.
  std::string Missing() const;
  /// How many trials all of them can have at one time.
  std::int64_t trials() const;
  /// All RANKs, by the names of their machines: in this order every experiment
  /// takes slots of theirs, so that no two wait for each other.
  std::vector<int> SlotOrder() const;
  /// "RANK=1 on HOST", for people.
  std::string Described(int node) const;
  /// A line for the user.
  void Notice(const std::string& line) const;
  const NodePlace& place() const { return options_.place; }
  const NodeIdentity& identity() const { return options_.identity; }
  const std::string& secret() const { return secret_; }

  /// Dropped if the follower is gone.
  void Send(int node, const NodeOrder& order);
  void SendAll(const NodeOrder& order);
  /// Lets all followers end well.
  void SayGoodbye();

 private:
  struct Node {
    std::unique_ptr<NodeChannel> channel;  // or none
    std::int64_t trials = 1;
    std::string host;
  };

  UniqueFd Listen() const;
  void Receive(ProvedPeer peer);
  void Admit(const NodeHello& hello, std::unique_ptr<NodeChannel> channel);
  void NoticeStrangers();
  std::string Refusal(const NodeHello& hello) const;
  void OnReady(int number, const Poller::Ready& ready);
  void Lose(int number, const std::string& why);
  void Watch(int number);
  // Calls `work` with the node's channel; what it throws is the loss of it.
  template <typename Work>
  void With(int number, const Work& work);

  Options options_;
  Poller poller_;
  UniqueFd listener_;  // until `pending_` has it
  std::string secret_;
  PendingPeers pending_;
  std::int64_t strangers_ = 0;  // not yet told of
  Duration strangers_told_at_{0};
  std::vector<Node> nodes_;  // by RANK; the first is this process
  std::vector<NodeEvent> events_;
};

}  // namespace dtrain

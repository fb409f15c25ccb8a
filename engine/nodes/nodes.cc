#include "engine/nodes/nodes.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/ranks/rank_connections.h"

namespace dtrain {
namespace {

// Poller token of connections that are not admitted; followers have their RANK.
constexpr std::uint64_t kPending = 0;
// The end of a shard contains the last lines of a log, of 2000 bytes each.
constexpr std::size_t kLongestReport = std::size_t{1} << 20;
constexpr Duration kRejectionNotices = std::chrono::minutes(1);

std::string NameOf(int rank) { return "RANK=" + std::to_string(rank); }

}  // namespace

Nodes::Nodes(Options options)
    : options_(std::move(options)),
      listener_(Listen()),
      secret_(options_.secret.ReadOrMake()),
      pending_(std::move(listener_), secret_, kNodesPurpose, options_.clock),
      rejection_reported_at_(options_.clock.monotonic() - kRejectionNotices),
      nodes_(static_cast<std::size_t>(options_.env.world_size)) {
  nodes_.front().host = options_.host;
  poller_.Add(pending_.fd(), kPending);
}

UniqueFd Nodes::Listen() const {
  const DistributedEnv& env = options_.env;
  const int ranks = options_.identity.ranks;
  if (env.world_size * ranks > kMaxNetworkRanks) {
    throw Error(ErrorKind::kResources,
                "WORLD_SIZE=" + std::to_string(env.world_size) + ": with " +
                    std::to_string(ranks) +
                    " ranks each, a trial would have more than " +
                    std::to_string(kMaxNetworkRanks) +
                    "; lower it, or resources.slots_per_trial");
  }
  try {
    std::string why;
    UniqueFd listener =
        ListenAt(env.runner, {.only_here = env.all_here, .notice = &why});
    if (!why.empty()) {
      Notice("warning: MASTER_ADDR=" + why +
             "; listening on all addresses of this machine");
    }
    return listener;
  } catch (const Error& error) {
    throw Error(error.kind(),
                "MASTER_ADDR, MASTER_PORT: " + std::string(error.what()) +
                    "; give all processes another MASTER_PORT (torchrun "
                    "listens at its own: start dtrain without it)");
  }
}

Nodes::~Nodes() = default;

void Nodes::Gather(Duration patience) {
  const Duration end = options_.clock.monotonic() + patience;
  while (!complete()) {
    const Duration now = options_.clock.monotonic();
    if (now >= end) {
      throw Error(ErrorKind::kResources,
                  "WORLD_SIZE=" + std::to_string(options_.env.world_size) +
                      ": no connection from " + Missing() + " at " +
                      ToString(options_.env.runner) + " within " +
                      FormatDuration(patience) +
                      "; start the same command there, with the same "
                      "MASTER_ADDR and MASTER_PORT");
    }
    const Duration due = std::min(end, Deadline().value_or(end));
    Poller waiting;
    waiting.Add(fd(), 0);
    waiting.Wait(std::max(due - now, Duration(0)));
    Serve();
  }
}

std::vector<NodeEvent> Nodes::Serve() {
  for (const Poller::Ready& ready : poller_.Wait(Duration(0))) {
    if (ready.token != kPending) OnReady(static_cast<int>(ready.token), ready);
  }
  for (ProvedPeer& peer : pending_.Serve()) Receive(std::move(peer));
  ReportRejected();
  for (int node = 1; node < options_.env.world_size; ++node) {
    With(node, [&](NodeChannel& channel) {
      channel.OnTime(EncodeOrder(Alive{}));
      Watch(node);
    });
  }
  return std::exchange(events_, {});
}

std::optional<Duration> Nodes::Deadline() const {
  std::optional<Duration> deadline = pending_.Deadline();
  for (const Node& node : nodes_) {
    if (!node.channel) continue;
    const Duration due = node.channel->Deadline();
    deadline = std::min(deadline.value_or(due), due);
  }
  return deadline;
}

std::string Nodes::Missing() const {
  std::vector<std::string> missing;
  for (int node = 1; node < options_.env.world_size; ++node) {
    if (!nodes_[static_cast<std::size_t>(node)].channel) {
      missing.push_back(NameOf(node));
    }
  }
  return Join(missing, ", ");
}

std::int64_t Nodes::trials() const {
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 1; i < nodes_.size(); ++i) {
    fewest = std::min(fewest, nodes_[i].trials);
  }
  return fewest;
}

std::vector<int> Nodes::SlotOrder() const {
  std::vector<int> order(nodes_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [this](int node) {
    return nodes_[static_cast<std::size_t>(node)].host;
  });
  return order;
}

std::string Nodes::Described(int node) const {
  const std::string& host = nodes_[static_cast<std::size_t>(node)].host;
  return NameOf(node) + " on " + Truncate(EscapeForTerminal(host), 80);
}

void Nodes::Notice(const std::string& line) const {
  if (options_.notice) options_.notice(line);
}

// Reason to reject a follower, or empty.
std::string Nodes::Refusal(const NodeHello& hello) const {
  const NodeIdentity& mine = options_.identity;
  const NodeIdentity& its = hello.identity;
  if (its.version != mine.version) {
    return "its dtrain is version " + its.version + ", that of RANK=0 is " +
           mine.version + "; install the same version on all machines";
  }
  if (hello.world_size != options_.env.world_size) {
    return "its WORLD_SIZE is " + std::to_string(hello.world_size) +
           ", that of RANK=0 is " + std::to_string(options_.env.world_size) +
           "; set the same value for all processes";
  }
  if (hello.rank < 1 || hello.rank >= hello.world_size) {
    return "its RANK is not between 1 and WORLD_SIZE - 1";
  }
  if (nodes_[static_cast<std::size_t>(hello.rank)].channel) {
    return "another process has the same RANK; set a different one for each";
  }
  if (its.configuration != mine.configuration) {
    return "its configuration differs from that of RANK=0; start all processes "
           "with the same file and the same options";
  }
  if (its.ranks != mine.ranks || its.gpus != mine.gpus) {
    return "its slots for a trial differ from those of RANK=0; set "
           "resources.slots and resources.slots_per_trial to values that fit "
           "all machines";
  }
  return "";
}

void Nodes::Receive(ProvedPeer peer) {
  NodeReport claim;
  try {
    claim = DecodeReport(peer.proof.claim());
  } catch (const Error&) {
    return;
  }
  const auto* hello = std::get_if<NodeHello>(&claim);
  if (hello == nullptr || !peer.proof.Welcome(peer.socket.get())) return;
  Admit(*hello, std::make_unique<NodeChannel>(
                    std::move(peer.socket), peer.proof.Session(), "a follower",
                    kLongestReport, options_.clock));
}

void Nodes::ReportRejected() {
  const PendingConnections::Rejected rejected = pending_.TakeRejected();
  unreported_ += rejected.count;
  const Duration now = options_.clock.monotonic();
  if (rejected.count == 0 || now - rejection_reported_at_ < kRejectionNotices) {
    return;
  }
  rejection_reported_at_ = now;
  const std::int64_t count = std::exchange(unreported_, 0);
  Notice("warning: rejected " + std::to_string(count) +
         (count == 1 ? " connection" : " connections") +
         " without the secret of " + options_.secret.Name() +
         ", the last from " + rejected.address);
}

void Nodes::Admit(const NodeHello& hello,
                  std::unique_ptr<NodeChannel> channel) {
  const std::string refusal = Refusal(hello);
  const std::string name = NameOf(hello.rank);
  if (!refusal.empty()) {
    Notice("a process with " + name +
           " was rejected: " + EscapeForTerminal(refusal));
    channel->Write(EncodeOrder(NodeRefused{refusal}));
    return;
  }
  Node& node = nodes_[static_cast<std::size_t>(hello.rank)];
  node = {.channel = std::move(channel),
          .trials = hello.trials,
          .host = hello.host};
  poller_.Add(node.channel->fd(), static_cast<std::uint64_t>(hello.rank));
  Notice("the process with " + name + " has connected");
  events_.push_back(NodeJoined{hello.rank});
  Send(hello.rank, NodeAccepted{});
}

template <typename Work>
void Nodes::With(int number, const Work& work) {
  const auto& channel = nodes_[static_cast<std::size_t>(number)].channel;
  if (!channel) return;
  try {
    work(*channel);
  } catch (const Error& error) {
    Lose(number, error.what());
  }
}

void Nodes::OnReady(int number, const Poller::Ready& ready) {
  With(number, [&](NodeChannel& channel) {
    if (ready.writable) {
      channel.Flush();
      Watch(number);
    }
    if (!ready.readable) return;
    const bool more = channel.Fill();
    while (const auto line = channel.Next()) {
      NodeReport report = DecodeReport(*line);
      if (!std::holds_alternative<Alive>(report)) {
        events_.push_back(NodeSaid{number, std::move(report)});
      }
    }
    if (!more) {
      throw Error(ErrorKind::kFailed, "it closed its connection");
    }
  });
}

void Nodes::Lose(int number, const std::string& why) {
  auto& channel = nodes_[static_cast<std::size_t>(number)].channel;
  poller_.Remove(channel->fd());
  channel.reset();
  const std::string line =
      "lost the process with " + NameOf(number) + ": " + EscapeForTerminal(why);
  Notice(line);
  events_.push_back(NodeLost{number, line});
}

void Nodes::Watch(int number) {
  const auto& channel = nodes_[static_cast<std::size_t>(number)].channel;
  poller_.WantWrite(channel->fd(), static_cast<std::uint64_t>(number),
                    channel->wants_write());
}

void Nodes::Send(int node, const NodeOrder& order) {
  With(node, [&](NodeChannel& channel) {
    channel.Write(EncodeOrder(order));
    Watch(node);
  });
}

void Nodes::SendAll(const NodeOrder& order) {
  for (int node = 1; node < options_.env.world_size; ++node) {
    Send(node, order);
  }
}

void Nodes::SendShutdown() { SendAll(ShutdownNode{}); }

}  // namespace dtrain

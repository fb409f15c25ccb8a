// The runner's connections to its workers, driven by one poller and by timers.
//
// A connection is pending until its peer has proved that it knows the secret.
// Its claim is a WorkerHello: Admit rejects it, or gives it a number and sends
// it the task, as soon as there is one. A worker offers slots once it has
// answered with WorkerReady; those of this process, number 0, are offered by
// OfferSlots. All work on a channel is done in With: an Error there, also of a
// message, loses the worker and not the runner. Serve returns what happened.

#include "engine/nodes/nodes.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fcntl.h>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/os/files.h"
#include "engine/os/unique_fd.h"
#include "engine/ranks/rank_connections.h"

namespace dtrain {
namespace {

// Poller token of connections that are not admitted; others have their number.
constexpr std::uint64_t kPending = 0;
// The end of a shard contains the last lines of a log, of 2000 bytes each.
constexpr std::size_t kLongestReport = std::size_t{1} << 20;
constexpr Duration kShutdownPatience = std::chrono::seconds(5);
constexpr Duration kRejectionNotices = std::chrono::minutes(1);

std::string RankName(int rank) { return "RANK=" + std::to_string(rank); }

}  // namespace

Nodes::Nodes(Options options)
    : options_(std::move(options)),
      listener_(Listen()),
      port_(GetPort(listener_.get())),
      secret_(options_.secret.ReadOrMake()),
      pending_(std::move(listener_), secret_, kWorkersPurpose, options_.clock),
      rejection_reported_at_(options_.clock.monotonic() - kRejectionNotices),
      nodes_(static_cast<std::size_t>(world_size())) {
  nodes_.front().host = options_.host;
  poller_.Add(pending_.fd(), kPending);
}

UniqueFd Nodes::Listen() const {
  if (!is_fixed_set()) return ListenForWorkers(options_.place);
  const int ranks = options_.claim->ranks;
  if (world_size() * ranks > kMaxNetworkRanks) {
    throw Error(ErrorKind::kResources,
                "WORLD_SIZE=" + std::to_string(world_size()) + ": with " +
                    std::to_string(ranks) +
                    " ranks each, a trial would have more than " +
                    std::to_string(kMaxNetworkRanks) +
                    "; lower it, or resources.slots_per_trial");
  }
  try {
    std::string why;
    UniqueFd listener = ListenAt(
        options_.place, {.only_here = options_.all_here, .notice = &why});
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

UniqueFd ListenForWorkers(const HostPort& place) {
  std::string why;
  UniqueFd listener;
  try {
    listener = ListenAt({place.host.empty() ? "::" : place.host, place.port},
                        {.notice = &why});
  } catch (const Error& error) {
    throw Error(error.kind(),
                "resources.listen: " + std::string(error.what()) +
                    "; choose another port (--listen), or 0 for a "
                    "free one");
  }
  // Other addresses than the user has chosen may be open to strangers.
  if (!why.empty() && !place.host.empty()) {
    throw Error(ErrorKind::kResources,
                "resources.listen: " + why +
                    "; name an address of this machine, or only a port");
  }
  return listener;
}

std::string AddressOfFirst(const std::vector<ConnectionEnds>& workers) {
  const auto is_elsewhere = [](const ConnectionEnds& ends) {
    return !ends.peer.empty() && !IsLoopbackAddress(ends.peer);
  };
  if (is_elsewhere(workers.front())) return workers.front().peer;
  const auto other = std::ranges::find_if(workers, is_elsewhere);
  return other == workers.end() ? "127.0.0.1" : other->mine;
}

Nodes::~Nodes() = default;

void Nodes::AwaitRanks(Duration patience) {
  const Duration end = options_.clock.monotonic() + patience;
  while (!AbsentRanks().empty()) {
    const Duration now = options_.clock.monotonic();
    if (now >= end) {
      throw Error(ErrorKind::kResources,
                  "WORLD_SIZE=" + std::to_string(world_size()) +
                      ": no connection from " + AbsentRanks() + " at " +
                      ToString(options_.place) + " within " +
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
  const auto due = pending_.Deadline();
  bool newcomers = due && *due <= options_.clock.monotonic();
  for (const Poller::Ready& ready : poller_.Wait(Duration(0))) {
    if (ready.token == kPending) {
      newcomers = true;
    } else {
      OnReady(static_cast<int>(ready.token), ready);
    }
  }
  if (newcomers) {
    for (ProvedPeer& peer : pending_.Serve()) Receive(std::move(peer));
    const PendingConnections::Rejected rejected = pending_.DrainRejected();
    unreported_ += rejected.count;
    const Duration now = options_.clock.monotonic();
    if (rejected.count > 0 &&
        now - rejection_reported_at_ >= kRejectionNotices) {
      rejection_reported_at_ = now;
      const std::int64_t count = std::exchange(unreported_, 0);
      Notice("warning: rejected " + CountText(count, "connection") +
             " without the secret of " + options_.secret.Name() +
             ", the last from " + rejected.address);
    }
  }
  RunTimers();
  return std::exchange(events_, {});
}

void Nodes::RunTimers() {
  const Duration now = options_.clock.monotonic();
  while (const std::optional<int> node = timers_.Pop(now)) {
    With(*node, [&](NodeChannel& channel) {
      channel.OnTime(EncodeOrder(Alive{}));
      Watch(*node);
      timers_.Set(*node, channel.Deadline());
    });
  }
}

std::optional<Duration> Nodes::Deadline() const {
  const std::optional<Duration> pending = pending_.Deadline();
  const std::optional<Duration> timer = timers_.next();
  if (pending && timer) return std::min(*pending, *timer);
  return pending ? pending : timer;
}

std::string Nodes::AbsentRanks() const {
  std::vector<std::string> absent;
  for (int rank = 1; rank < world_size(); ++rank) {
    if (!At(rank).channel) absent.push_back(RankName(rank));
  }
  return Join(absent, ", ");
}

std::string Nodes::Described(int node) const {
  const std::string host = Truncate(EscapeForTerminal(At(node).host), 80);
  if (is_fixed_set()) return RankName(node) + " on " + host;
  const std::string name = Truncate(EscapeForTerminal(At(node).name), 80);
  return "worker " + name + (name == host ? "" : " on " + host);
}

void Nodes::Notice(const std::string& line) const {
  if (options_.notice) options_.notice(line);
}

// Reason to reject a worker, or empty.
std::string Nodes::Refusal(const WorkerHello& hello) const {
  if (hello.version != options_.version) {
    return "its dtrain is version " + hello.version +
           ", that of the runner is " + options_.version +
           "; install the same version on all machines";
  }
  if (!hello.claim || !options_.claim) {
    if (!hello.claim && !options_.claim) return "";
    return options_.claim ? "it has no RANK; start the command of RANK=0 there"
                          : "it has a RANK; start 'dtrain worker' there";
  }
  const RankClaim& mine = *options_.claim;
  const RankClaim& its = *hello.claim;
  if (its.world_size != mine.world_size) {
    return "its WORLD_SIZE is " + std::to_string(its.world_size) +
           ", that of RANK=0 is " + std::to_string(mine.world_size) +
           "; set the same value for all processes";
  }
  if (its.rank < 1 || its.rank >= its.world_size) {
    return "its RANK is not between 1 and WORLD_SIZE - 1";
  }
  if (At(its.rank).channel) {
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
  const auto* hello = std::get_if<WorkerHello>(&claim);
  if (hello == nullptr || !peer.proof.Welcome(peer.socket.get())) return;
  Admit(*hello, std::make_unique<NodeChannel>(std::move(peer.socket),
                                              peer.proof.Session(), "a worker",
                                              kLongestReport, options_.clock));
}

// Without a RANK, workers get ids in the order in which they connect. An id is
// not used again, since trials and messages refer to it.
void Nodes::Admit(const WorkerHello& hello,
                  std::unique_ptr<NodeChannel> channel) {
  const std::string refusal = Refusal(hello);
  if (!refusal.empty()) {
    const std::string name =
        hello.claim ? RankName(hello.claim->rank) : hello.name;
    Notice("worker " + Truncate(EscapeForTerminal(name), 80) +
           " was rejected: " + EscapeForTerminal(refusal));
    channel->Write(EncodeOrder(NodeRefused{refusal}));
    return;
  }
  if (!hello.claim) nodes_.emplace_back();
  const int id = hello.claim ? hello.claim->rank : LastNode();
  const ConnectionEnds ends = GetConnectionEnds(channel->fd());
  At(id) = {.channel = std::move(channel),
            .host = hello.host,
            .ends = ends,
            .name = hello.name,
            .job = hello.job,
            .until = hello.until,
            .joined = options_.clock.now()};
  Connect(id);
  Send(id, NodeAccepted{});
  if (is_fixed_set()) Notice(Described(id) + " has connected");
  SendTask(id);
}

void Nodes::SetTask(WorkerTask task) {
  task_ = std::move(task);
  for (int node = 1; node <= LastNode(); ++node) SendTask(node);
}

void Nodes::SendTask(int number) {
  if (!task_) return;
  // The lines are new for each worker: a copy of the file that was made earlier
  // does not have them.
  WorkerTask task = *task_;
  for (auto& [path, line] : task.probes) {
    const UniqueFd file(
        ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
    std::string next = RandomUuid() + "\n";
    // The old line stays if that fails.
    if (file && WriteFully(file.get(), std::as_bytes(std::span(next)))) {
      line = std::move(next);
    }
  }
  Send(number, task);
}

void Nodes::RefuseWorker(int number, NodeChannel& channel,
                         const std::string& why) {
  Notice(Described(number) + " was rejected: " + EscapeForTerminal(why));
  At(number).dismissed = true;
  channel.Write(EncodeOrder(NodeRefused{why}));
}

// The first worker decides about the kind of slots if nothing else does.
void Nodes::OnWorkerReady(int number, NodeChannel& channel,
                          const WorkerReady& ready) {
  Node& node = At(number);
  const bool gpus = task_->gpus.value_or(ready.gpus);
  if (gpus != ready.gpus) {
    const auto kind = [](bool gpu) { return gpu ? "GPUs" : "CPUs"; };
    return RefuseWorker(number, channel,
                        std::string("its slots are ") + kind(ready.gpus) +
                            ", those of the experiment are " + kind(gpus) +
                            "; set resources.slots, or --slots of 'dtrain "
                            "worker'");
  }
  task_->gpus = gpus;
  node.slots = ready.slots;
  node.gpus = ready.gpus;
  node.state = WorkerState::kReady;
  const auto each = std::max(static_cast<std::int64_t>(task_->slots_per_trial),
                             std::int64_t{1});
  const std::int64_t trials = ready.slots / each;
  Notice(Described(number) + " has joined" +
         (node.job.empty() ? "" : " with job " + EscapeForTerminal(node.job)) +
         (trials == 0 ? ", with " + std::to_string(ready.slots) + " of the " +
                            std::to_string(each) + " slots of a trial"
                      : ", for " + CountText(trials, "trial") + " at a time"));
  for (const std::string& text : ready.differences) {
    if (!differences_.insert(text).second) continue;  // once for all workers
    Notice("warning: " + Described(number) + ": " + EscapeForTerminal(text) +
           "; results may differ");
  }
  events_.push_back(NodeJoined{number});
}

void Nodes::OfferSlots(std::int64_t slots, bool gpus) {
  Node& node = At(0);
  if (node.state == WorkerState::kJoining) node.joined = options_.clock.now();
  node.state = WorkerState::kReady;
  node.slots = slots;
  node.gpus = gpus;
}

// Called inside With, so it must not lose the node itself.
void Nodes::OnReport(int number, NodeChannel& channel, NodeReport report) {
  if (std::holds_alternative<Alive>(report)) return;
  if (const auto* ready = std::get_if<WorkerReady>(&report); ready && task_) {
    return OnWorkerReady(number, channel, *ready);
  }
  if (const auto* unable = std::get_if<WorkerUnable>(&report)) {
    return RefuseWorker(number, channel, unable->reason);
  }
  if (const auto* draining = std::get_if<WorkerDraining>(&report)) {
    At(number).state = WorkerState::kDraining;
    Notice(Described(number) +
           " takes no more trials: " + EscapeForTerminal(draining->reason));
  }
  events_.push_back(NodeReported{number, std::move(report)});
}

std::vector<WorkerRow> Nodes::Workers() const {
  std::vector<WorkerRow> rows;
  for (int id = 0; id <= LastNode(); ++id) {
    const Node& node = At(id);
    const bool present = id == 0 ? node.slots > 0 : node.channel != nullptr;
    if (!present || node.dismissed) continue;
    rows.push_back({.id = id,
                    .name = node.name,
                    .host = node.host,
                    .job = node.job,
                    .state = node.state,
                    .gpus = node.gpus,
                    .slots = node.slots,
                    .joined = node.joined,
                    .until = node.until});
  }
  return rows;
}

std::int64_t Nodes::Capacity(int node) const {
  const Node& it = At(node);
  const bool takes = (it.channel || node == 0) && !it.dismissed &&
                     it.state == WorkerState::kReady;
  return takes ? it.slots : 0;
}

std::string Nodes::AddressFor(const std::vector<ShardPlace>& places) const {
  if (is_fixed_set()) return options_.place.host;
  std::vector<ConnectionEnds> ends;
  for (const ShardPlace& place : places) ends.push_back(At(place.node).ends);
  return AddressOfFirst(ends);
}

bool Nodes::draining(int node) const {
  const Node& it = At(node);
  return it.channel && !it.dismissed && it.state == WorkerState::kDraining;
}

void Nodes::Dismiss(int node) {
  At(node).dismissed = true;
  Send(node, ShutdownNode{});
}

template <typename Work>
void Nodes::With(int number, const Work& work) {
  const auto& channel = At(number).channel;
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
    // What arrived before the end is handled before the end.
    const bool more = channel.Fill();
    while (const auto line = channel.Next()) {
      OnReport(number, channel, DecodeReport(*line));
    }
    if (!more) {
      throw Error(ErrorKind::kFailed, "it closed its connection");
    }
  });
}

void Nodes::Lose(int number, const std::string& why) {
  Node& node = At(number);
  poller_.Remove(node.channel->fd());
  node.channel.reset();
  timers_.Set(number, std::nullopt);
  const std::string line =
      "lost " + Described(number) + ": " + EscapeForTerminal(why);
  if (!node.dismissed) Notice(line);
  events_.push_back(NodeLost{number, line});
}

// Begins to watch the channel of a node.
void Nodes::Connect(int number) {
  Node& node = At(number);
  node.watched_for_writing = false;
  poller_.Add(node.channel->fd(), static_cast<std::uint64_t>(number));
  timers_.Set(number, node.channel->Deadline());
}

void Nodes::Watch(int number) {
  Node& node = At(number);
  const bool wanted = node.channel->wants_write();
  if (std::exchange(node.watched_for_writing, wanted) == wanted) return;
  poller_.WatchForWrite(node.channel->fd(), static_cast<std::uint64_t>(number),
                        wanted);
}

void Nodes::Send(int node, const NodeOrder& order) {
  With(node, [&](NodeChannel& channel) {
    channel.Write(EncodeOrder(order));
    Watch(node);
  });
}

// A socket that is closed while it has unread bytes may drop the last order, so
// a worker closes first.
void Nodes::SendShutdown() {
  for (int node = 1; node <= LastNode(); ++node) Dismiss(node);
  const Duration end = options_.clock.monotonic() + kShutdownPatience;
  const auto is_open = [](const Node& node) { return node.channel != nullptr; };
  while (std::ranges::any_of(nodes_, is_open)) {
    const Duration left = end - options_.clock.monotonic();
    if (left <= Duration(0)) return;
    Poller waiting;
    waiting.Add(fd(), 0);
    waiting.Wait(std::min<Duration>(left, std::chrono::milliseconds(100)));
    Serve();
  }
}

}  // namespace dtrain

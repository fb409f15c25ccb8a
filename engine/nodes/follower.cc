#include "engine/nodes/follower.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <poll.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/nodes/node_message.h"
#include "engine/ranks/peer_proof.h"

namespace dtrain {
namespace {

constexpr Duration kConnect = std::chrono::seconds(5);
constexpr Duration kRetry = std::chrono::milliseconds(500);
constexpr Duration kProof = std::chrono::seconds(10);
// A runner that is exiting may close a connection that it would accept.
constexpr Duration kRefused = std::chrono::seconds(3);
// By then a scheduler that ends all machines has signaled the runner itself.
constexpr Duration kBeforeInterrupt = std::chrono::seconds(2);
// More than any specification.
constexpr std::size_t kLongestOrder = std::size_t{8} << 20;

void PollFor(int fd, short events, Duration limit) {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
  pollfd entry{.fd = fd, .events = events, .revents = 0};
  ::poll(&entry, 1, static_cast<int>(std::max<long>(milliseconds, 0)));
}

// The connection to the runner. Writes are complete when the call returns, so
// that a trial that prints faster than the network is slowed down, as by a slow
// disk.
class RunnerLink {
 public:
  RunnerLink(UniqueFd socket, const PeerProof& proof, std::string secret,
             const HostPort& runner, Clock clock)
      : secret_(std::move(secret)),
        clock_(clock),
        channel_(std::move(socket), proof.Session(),
                 "the runner at " + ToString(runner), kLongestOrder, clock,
                 kRunnerSilence) {}

  int fd() const { return channel_.fd(); }
  const std::string& peer() const { return channel_.peer(); }
  Duration heard_at() const { return channel_.heard_at(); }
  // The secret that both ends proved.
  const std::string& secret() const { return secret_; }

  // Throws Error(kFailed) if the runner is lost.
  void Send(const NodeReport& report) {
    channel_.Write(EncodeReport(report));
    const Duration end = clock_.monotonic() + kNodeSilence;
    while (channel_.wants_write()) {
      if (clock_.monotonic() >= end) Lose("it reads nothing");
      PollFor(fd(), POLLOUT, end - clock_.monotonic());
      channel_.Flush();
    }
  }

  // Returns the next order, or none yet. Throws Error(kFailed) as Send does.
  std::optional<NodeOrder> Receive() {
    try {
      std::optional<std::string> line = channel_.Next();
      if (!line) {
        ended_ = ended_ || !channel_.Fill();
        line = channel_.Next();
      }
      if (line) return DecodeOrder(*line);
      if (!ended_) channel_.OnTime(EncodeReport(Alive{}));
    } catch (const Error& error) {
      Lose(error.what());
    }
    if (ended_) Lose("it closed the connection");
    return std::nullopt;
  }

  // Waits for an order other than Alive.
  NodeOrder Await() {
    while (true) {
      std::optional<NodeOrder> order = Receive();
      if (order && !std::holds_alternative<Alive>(*order)) return *order;
      if (!order) PollFor(fd(), POLLIN, TimeLeft());
    }
  }

  // From here on the loss of the runner interrupts an experiment.
  void Joined() { joined_ = true; }

  Duration TimeLeft() const {
    return std::max(channel_.Deadline() - clock_.monotonic(), Duration(0));
  }

 private:
  [[noreturn]] void Lose(const std::string& why) const {
    throw Error(ErrorKind::kFailed,
                "lost " + peer() + ": " + EscapeForTerminal(why) +
                    (joined_ ? "; resume the experiment there with RANK=0, "
                               "and start this command again"
                             : ""));
  }

  const std::string secret_;
  Clock clock_;
  NodeChannel channel_;
  bool joined_ = false;
  bool ended_ = false;
};

// Result of an attempt to join the runner: a link, or an obstacle that may go
// away within `patience`.
struct JoinAttempt {
  std::unique_ptr<RunnerLink> link;
  std::string obstacle;
  Duration patience{0};
};

std::string HelloOf(const FollowerOptions& options) {
  return EncodeReport(NodeHello{.rank = options.env.rank,
                                .world_size = options.env.world_size,
                                .identity = options.identity,
                                .trials = options.launcher.slots.count,
                                .host = options.host});
}

// Proves both ends' knowledge of the secret. False if the other end has a
// different one. Throws Error(kFailed) if it does not answer.
bool ProveSecret(PeerProof& proof, int socket, const HostPort& runner,
                 const Clock& clock) {
  const Duration end = clock.monotonic() + kProof;
  const auto state =
      AwaitProof(proof, socket, [&] { return clock.monotonic() >= end; });
  if (state == PeerProof::State::kRefused) return false;
  if (state == PeerProof::State::kProved) return true;
  throw Error(ErrorKind::kFailed,
              "lost the runner at " + EscapeForTerminal(ToString(runner)) +
                  ": it does not answer like a dtrain runner");
}

// Throws Error(kUsage) if the runner rejects this process, Error(kFailed) if no
// runner answers.
JoinAttempt TryToJoin(const FollowerOptions& options) {
  const DistributedEnv& env = options.env;
  const Clock& clock = options.launcher.clock;
  const std::string rank = "RANK=" + std::to_string(env.rank) + ": ";
  UniqueFd socket = ConnectTo(env.runner, kConnect);
  const std::optional<std::string> secret = options.secret.Read();
  if (!secret) {
    return {.obstacle = rank + "there is no " + options.secret.Name() +
                        ", which authenticates the processes of several "
                        "machines; give this one the store of RANK=0 "
                        "(--store), or set DTRAIN_SECRET_FILE for all to a "
                        "file of 32 random bytes that only you can read",
            .patience = options.secret_patience};
  }
  PeerProof proof(
      PeerProof::Side::kConnects,
      {.secret = *secret, .purpose = kNodesPurpose, .claim = HelloOf(options)});
  if (!ProveSecret(proof, socket.get(), env.runner, clock)) {
    return {.obstacle = rank + "the process at " +
                        EscapeForTerminal(ToString(env.runner)) +
                        " has a different secret from " +
                        options.secret.Name() +
                        ", or is not a dtrain runner; give all processes the "
                        "same store (--store) or DTRAIN_SECRET_FILE",
            .patience = kRefused};
  }
  auto link = std::make_unique<RunnerLink>(std::move(socket), proof, *secret,
                                           env.runner, clock);
  const NodeOrder answer = link->Await();
  if (const auto* refused = std::get_if<NodeRefused>(&answer)) {
    throw Error(ErrorKind::kUsage, rank + link->peer() +
                                       " rejected this process: " +
                                       EscapeForTerminal(refused->reason));
  }
  return {.link = std::move(link)};
}

std::unique_ptr<RunnerLink> Join(const FollowerOptions& options) {
  const Clock& clock = options.launcher.clock;
  const auto notice = [&](const std::string& line) {
    if (options.notice) options.notice(line);
  };
  const Duration end = clock.monotonic() + options.patience;
  std::optional<Duration> obstacle_since;
  // An invalid secret is an error before there is a runner.
  (void)options.secret.Read();
  notice("RANK=" + std::to_string(options.env.rank) +
         ": waiting for the runner, RANK=0, at " +
         EscapeForTerminal(ToString(options.env.runner)));
  while (true) {
    try {
      JoinAttempt attempt = TryToJoin(options);
      if (attempt.link) return std::move(attempt.link);
      const Duration now = clock.monotonic();
      if (!obstacle_since) {
        obstacle_since = now;
        notice("warning: " + attempt.obstacle);
      }
      if (now - *obstacle_since >=
          std::min(attempt.patience, options.patience)) {
        throw Error(ErrorKind::kUsage, attempt.obstacle);
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kFailed) throw;
      if (clock.monotonic() >= end) {
        throw Error(ErrorKind::kFailed,
                    "MASTER_ADDR, MASTER_PORT: no runner answered within " +
                        FormatDuration(options.patience) + ": " + error.what() +
                        "; start the same command with RANK=0 there");
      }
    }
    std::this_thread::sleep_for(kRetry);
  }
}

bool IsBelow(const std::filesystem::path& path,
             const std::filesystem::path& root) {
  const auto [at, rest] =
      std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return at == root.end() && rest != path.end();
}

// None if the path cannot be resolved.
std::optional<std::filesystem::path> Resolved(
    const std::filesystem::path& path) {
  std::error_code error;
  auto resolved = std::filesystem::weakly_canonical(path, error);
  if (error || !resolved.is_absolute()) return std::nullopt;
  return resolved;
}

// A file that the trial needs and that does not exist here, or empty.
std::string MissingFile(const TrialSpec& spec) {
  namespace fs = std::filesystem;
  std::vector<fs::path> needed;
  if (!spec.restore.empty())
    needed.emplace_back(spec.CheckpointPath(spec.restore));
  if (!spec.checkpoints.empty()) {
    needed.push_back(fs::path(spec.checkpoints).parent_path());
  }
  for (const std::string* path : {&spec.warm_start, &spec.library}) {
    if (!path->empty()) needed.emplace_back(*path);
  }
  std::error_code error;
  for (const fs::path& path : needed) {
    if (!fs::exists(path, error)) return path.string();
  }
  return "";
}

// This machine's ranks of the runner's trials.
class FollowedTrials {
 public:
  FollowedTrials(RunnerLink& link, FollowerOptions options)
      : link_(link),
        clock_(options.launcher.clock),
        rank_(options.env.rank),
        secret_(link.secret()),
        roots_(std::move(options.roots)),
        answer_patience_(options.answer_patience),
        notice_(std::move(options.notice)),
        launcher_(MakeLocalLauncher(Options(std::move(options.launcher)))) {}

  // Returns after ShutdownNode, a second signal, or a first one without an
  // answer.
  int Run() {
    while (true) {
      while (const std::optional<NodeOrder> order = link_.Receive()) {
        if (std::holds_alternative<ShutdownNode>(*order)) return 0;
        Apply(*order);
      }
      const LaunchEvent event = launcher_->Wait(TimeLeft());
      if (const auto* interrupted = std::get_if<Interrupted>(&event)) {
        if (signal_ != 0) return 128 + interrupted->signal;
        signal_ = interrupted->signal;
        report_signal_at_ = clock_.monotonic() + kBeforeInterrupt;
      } else {
        Report(event);
      }
      if (report_signal_at_ && *report_signal_at_ <= clock_.monotonic()) {
        report_signal_at_.reset();
        signal_reported_at_ = clock_.monotonic();
        link_.Send(NodeInterrupted{signal_});
      }
      if (signal_reported_at_ && clock_.monotonic() >= AnswerEnd()) {
        if (notice_) {
          notice_(link_.peer() + " does not answer; ending without it");
        }
        return 128 + signal_;
      }
    }
  }

 private:
  LocalLauncherOptions Options(LocalLauncherOptions options) {
    options.wake = link_.fd();
    options.log = [this](TrialId id, const LogRecord& record) {
      link_.Send(ShardPrinted{id, record});
    };
    return options;
  }

  Duration TimeLeft() const {
    Duration left = link_.TimeLeft();
    if (report_signal_at_)
      left = std::min(left, *report_signal_at_ - clock_.monotonic());
    if (signal_reported_at_)
      left = std::min(left, AnswerEnd() - clock_.monotonic());
    return std::max(left, Duration(0));
  }

  // A live runner sends a message every few seconds.
  Duration AnswerEnd() const {
    return std::max(*signal_reported_at_, link_.heard_at()) + answer_patience_;
  }

  void Apply(const NodeOrder& order) {
    if (const auto* start = std::get_if<StartShard>(&order)) {
      Start(start->spec);
    } else if (const auto* stop = std::get_if<StopShard>(&order)) {
      launcher_->RequestStop(stop->trial);
    } else if (const auto* kill = std::get_if<KillShard>(&order)) {
      launcher_->Kill(kill->trial);
    }
  }

  void Start(TrialSpec spec) {
    const std::string rank = "RANK=" + std::to_string(rank_) + ": ";
    if (const std::string why = ObjectionTo(spec, roots_); !why.empty()) {
      return NotStarted(spec, rank + why);
    }
    if (const std::string missing = MissingFile(spec); !missing.empty()) {
      return NotStarted(
          spec,
          rank + missing +
              ": does not exist on this machine; keep the store (--store) "
              "on a file system that all machines mount at the same "
              "path");
    }
    spec.address->token = RankSecret(secret_, spec);
    launcher_->StartShard(spec, {});
  }

  void NotStarted(const TrialSpec& spec, const std::string& why) {
    link_.Send(ShardEnded{.exited = {.trial = spec.id,
                                     .exit_code = 1,
                                     .rank = spec.rank,
                                     .not_started = why,
                                     .last_lines = {why}}});
  }

  void Report(const LaunchEvent& event) {
    if (const std::string line = NoticeOf(event); notice_ && !line.empty()) {
      notice_(line);
    }
    if (const auto* started = std::get_if<TrialStarted>(&event)) {
      link_.Send(ShardStarted{started->trial});
    } else if (const auto* said = std::get_if<MessageReceived>(&event)) {
      const auto* finished = std::get_if<Finished>(&said->message);
      if (finished != nullptr) finished_[said->trial] = *finished;
    } else if (const auto* exited = std::get_if<TrialExited>(&event)) {
      ShardEnded ended{.exited = *exited};
      if (auto finished = finished_.extract(exited->trial)) {
        ended.finished = std::move(finished.mapped());
      }
      link_.Send(ended);
    }
  }

  RunnerLink& link_;
  Clock clock_;
  const int rank_;
  const std::string secret_;
  const std::vector<std::filesystem::path> roots_;
  const Duration answer_patience_;
  const std::function<void(const std::string& line)> notice_;
  std::map<TrialId, Finished> finished_;
  int signal_ = 0;
  std::optional<Duration> report_signal_at_;
  std::optional<Duration> signal_reported_at_;
  std::unique_ptr<LocalLauncher> launcher_;
};

}  // namespace

std::string ObjectionTo(const TrialSpec& spec,
                        const std::vector<std::filesystem::path>& roots) {
  if (spec.task != Task::kTrain || !spec.command.empty() ||
      !spec.images.empty() || !spec.address) {
    return "the runner ordered something other than training on several "
           "machines";
  }
  std::vector<std::pair<const char*, std::filesystem::path>> taken = {
      {"the directory of the trial", spec.directory}};
  if (!spec.library.empty()) taken.emplace_back("the model", spec.library);
  if (!spec.checkpoints.empty()) {
    taken.emplace_back("the directory of checkpoints", spec.checkpoints);
  }
  if (!spec.restore.empty()) {
    taken.emplace_back("the checkpoint", spec.CheckpointPath(spec.restore));
  }
  if (!spec.warm_start.empty()) {
    taken.emplace_back("the checkpoint to start from", spec.warm_start);
  }
  for (const auto& [what, path] : taken) {
    const auto resolved = Resolved(path);
    const bool below =
        resolved && std::ranges::any_of(roots, [&](const auto& root) {
          const auto real = Resolved(root);
          return real && IsBelow(*resolved, *real);
        });
    if (below) continue;
    std::vector<std::string> places;
    for (const auto& root : roots) places.push_back(root.string());
    return std::string(what) + ", " +
           Truncate(EscapeForTerminal(path.string()), 500) +
           ", is outside the directories that this process may use (" +
           EscapeForTerminal(Join(places, ", ")) +
           "); give all processes the same store (--store)";
  }
  return "";
}

std::string NoticeOf(const LaunchEvent& event) {
  if (const auto* restored = std::get_if<GpuRestored>(&event)) {
    return restored->gpu + " passed a test and is used again";
  }
  const auto* exited = std::get_if<TrialExited>(&event);
  if (exited == nullptr || !exited->gpu_fault) return "";
  const GpuFault& fault = *exited->gpu_fault;
  if (!fault.set_aside) return "";
  return "warning: " + EscapeForTerminal(fault.gpus + ": " + fault.reason) +
         "; it is set aside, and tested again every minute";
}

int Follow(FollowerOptions options) {
  const std::unique_ptr<RunnerLink> link = Join(options);
  if (options.notice) options.notice("following " + link->peer());
  link->Joined();
  const NodeOrder first = link->Await();
  if (std::holds_alternative<ShutdownNode>(first)) return 0;
  const auto* begun = std::get_if<ExperimentStarted>(&first);
  if (begun == nullptr) {
    throw Error(ErrorKind::kFailed,
                link->peer() + " sent an order before its experiment");
  }
  options.launcher.experiment = begun->experiment;
  return FollowedTrials(*link, std::move(options)).Run();
}

}  // namespace dtrain

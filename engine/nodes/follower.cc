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
#include "engine/nodes/nodes.h"
#include "engine/ranks/peer_proof.h"

namespace dtrain {
namespace {

constexpr Duration kConnect = std::chrono::seconds(5);
constexpr Duration kRetry = std::chrono::milliseconds(500);
constexpr Duration kProof = std::chrono::seconds(10);
// A runner that just ends may close a connection for no reason of its own.
constexpr Duration kRefused = std::chrono::seconds(3);
// A scheduler that ends all machines tells the runner itself, by then.
constexpr Duration kBeforeInterrupt = std::chrono::seconds(2);
// More than any specification.
constexpr std::size_t kLongestOrder = std::size_t{8} << 20;

void PollFor(int fd, short events, Duration limit) {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
  pollfd entry{.fd = fd, .events = events, .revents = 0};
  ::poll(&entry, 1, static_cast<int>(std::max<long>(milliseconds, 0)));
}

// What it says is written before the call returns, so that a trial that prints
// more than the network carries is slowed down, as a slow disk would.
class RunnerLink {
 public:
  RunnerLink(UniqueFd socket, const PeerProof& proof, std::string secret,
             const HostPort& place, Clock clock)
      : secret_(std::move(secret)),
        clock_(clock),
        channel_(std::move(socket), proof.Session(),
                 "the runner at " + ToString(place), kLongestOrder, clock,
                 kRunnerSilence) {}

  int fd() const { return channel_.fd(); }
  const std::string& peer() const { return channel_.peer(); }
  Duration heard_at() const { return channel_.heard_at(); }
  // What both have proved to each other.
  const std::string& secret() const { return secret_; }

  // Throws Error(kFailed) if the runner is lost.
  void Say(const NodeReport& report) {
    channel_.Write(EncodeReport(report));
    const Duration end = clock_.monotonic() + kNodeSilence;
    while (channel_.wants_write()) {
      if (clock_.monotonic() >= end) Lose("it reads nothing");
      PollFor(fd(), POLLOUT, end - clock_.monotonic());
      channel_.Flush();
    }
  }

  // The next order, or none yet. Throws Error(kFailed) as Say.
  std::optional<NodeOrder> Hear() {
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

  // Waits for an order that is more than a sign of life.
  NodeOrder Await() {
    while (true) {
      std::optional<NodeOrder> order = Hear();
      if (order && !std::holds_alternative<Alive>(*order)) return *order;
      if (!order) PollFor(fd(), POLLIN, TimeLeft());
    }
  }

  // From now on it is an experiment that is lost with the runner.
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

// What came of trying to join the runner: a link, or why that cannot be mended
// by waiting for longer than `patience`.
struct JoinAttempt {
  std::unique_ptr<RunnerLink> link;
  std::string obstacle;
  Duration patience{0};
};

// Throws Error(kUsage) if it is refused, Error(kFailed) if nobody answered as a
// runner does.
JoinAttempt TryToJoin(const FollowerOptions& options) {
  const NodePlace& place = options.place;
  const Clock& clock = options.launcher.clock;
  const std::string rank = "RANK=" + std::to_string(place.rank) + ": ";
  UniqueFd socket = ConnectTo(place.runner, kConnect);
  const std::optional<std::string> secret = options.secret.Read();
  if (!secret) {
    return {.obstacle = rank + "there is no " + options.secret.Name() +
                        ", by which the processes of several machines know "
                        "each other; give this one the store of RANK=0 "
                        "(--store), or set DTRAIN_SECRET_FILE for all to a "
                        "file of 32 random bytes that only you can read",
            .patience = options.secret_patience};
  }
  const std::string hello =
      EncodeReport(NodeHello{.rank = place.rank,
                             .world_size = place.world_size,
                             .identity = options.identity,
                             .trials = options.launcher.slots.count,
                             .host = options.host});
  PeerProof proof(
      PeerProof::Side::kConnects,
      {.secret = *secret, .purpose = kNodesPurpose, .claim = hello});
  const Duration end = clock.monotonic() + kProof;
  const auto state =
      AwaitProof(proof, socket.get(), [&] { return clock.monotonic() >= end; });
  if (state == PeerProof::State::kRefused) {
    return {.obstacle = rank + "the process at " +
                        EscapeForTerminal(ToString(place.runner)) +
                        " has another secret than " + options.secret.Name() +
                        ", or is no runner of dtrain; give all processes the "
                        "same store (--store) or DTRAIN_SECRET_FILE",
            .patience = kRefused};
  }
  if (state != PeerProof::State::kProved) {
    throw Error(ErrorKind::kFailed,
                "lost the runner at " +
                    EscapeForTerminal(ToString(place.runner)) +
                    ": it does not answer as one");
  }
  auto link = std::make_unique<RunnerLink>(std::move(socket), proof, *secret,
                                           place.runner, clock);
  const NodeOrder answer = link->Await();
  if (const auto* refused = std::get_if<NodeRefused>(&answer)) {
    throw Error(ErrorKind::kUsage, rank + link->peer() +
                                       " refuses this process: " +
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
  // One that cannot be is told before there is a runner.
  (void)options.secret.Read();
  notice("RANK=" + std::to_string(options.place.rank) +
         ": waiting for the runner, RANK=0, at " +
         EscapeForTerminal(ToString(options.place.runner)));
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
                    "MASTER_ADDR, MASTER_PORT: no runner was there within " +
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

// None for a path that leads nowhere.
std::optional<std::filesystem::path> Resolved(
    const std::filesystem::path& path) {
  std::error_code error;
  auto resolved = std::filesystem::weakly_canonical(path, error);
  if (error || !resolved.is_absolute()) return std::nullopt;
  return resolved;
}

// What the trial needs of the store and is not to be seen here, or empty.
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

// The trials of a runner, as far as they are here.
class FollowedTrials {
 public:
  FollowedTrials(RunnerLink& link, FollowerOptions options)
      : link_(link),
        clock_(options.launcher.clock),
        rank_(options.place.rank),
        secret_(link.secret()),
        roots_(std::move(options.roots)),
        answer_patience_(options.answer_patience),
        notice_(std::move(options.notice)),
        launcher_(Options(std::move(options.launcher))) {}

  // Until the runner says goodbye, a second signal comes, or the runner says
  // nothing after the first.
  int Run() {
    while (true) {
      while (const std::optional<NodeOrder> order = link_.Hear()) {
        if (std::holds_alternative<Goodbye>(*order)) return 0;
        Obey(*order);
      }
      const LaunchEvent event = launcher_.Wait(TimeLeft());
      if (const auto* interrupted = std::get_if<Interrupted>(&event)) {
        if (signal_ != 0) return 128 + interrupted->signal;
        signal_ = interrupted->signal;
        tell_at_ = clock_.monotonic() + kBeforeInterrupt;
      } else {
        Tell(event);
      }
      if (tell_at_ && *tell_at_ <= clock_.monotonic()) {
        tell_at_.reset();
        told_at_ = clock_.monotonic();
        link_.Say(NodeInterrupted{signal_});
      }
      if (told_at_ && clock_.monotonic() >= AnswerEnd()) {
        if (notice_) {
          notice_(link_.peer() + " says nothing; ending without it");
        }
        return 128 + signal_;
      }
    }
  }

 private:
  LocalLauncherOptions Options(LocalLauncherOptions options) {
    options.wake = link_.fd();
    options.log = [this](TrialId id, const LogRecord& record) {
      link_.Say(PartPrinted{id, record});
    };
    return options;
  }

  Duration TimeLeft() const {
    Duration left = link_.TimeLeft();
    if (tell_at_) left = std::min(left, *tell_at_ - clock_.monotonic());
    if (told_at_) left = std::min(left, AnswerEnd() - clock_.monotonic());
    return std::max(left, Duration(0));
  }

  // A runner that lives says so every few seconds.
  Duration AnswerEnd() const {
    return std::max(*told_at_, link_.heard_at()) + answer_patience_;
  }

  void Obey(const NodeOrder& order) {
    if (const auto* start = std::get_if<StartPart>(&order)) {
      Start(start->spec);
    } else if (const auto* stop = std::get_if<StopPart>(&order)) {
      launcher_.RequestStop(stop->trial);
    } else if (const auto* kill = std::get_if<KillPart>(&order)) {
      launcher_.Kill(kill->trial);
    }
  }

  void Start(TrialSpec spec) {
    const std::string rank = "RANK=" + std::to_string(rank_) + ": ";
    if (const std::string why = ObjectionTo(spec, roots_); !why.empty()) {
      return NotStarted(spec, rank + why);
    }
    if (const std::string missing = MissingFile(spec); !missing.empty()) {
      return NotStarted(
          spec, rank + missing +
                    ": is not there on this machine; keep the store (--store) "
                    "on a file system that all machines have at the same "
                    "place");
    }
    spec.address->token = RankSecret(secret_, spec);
    launcher_.StartPart(spec, {});
  }

  void NotStarted(const TrialSpec& spec, const std::string& why) {
    link_.Say(PartEnded{.exited = {.trial = spec.id,
                                   .exit_code = 1,
                                   .rank = spec.rank,
                                   .not_started = why,
                                   .last_lines = {why}}});
  }

  void Tell(const LaunchEvent& event) {
    if (const auto* started = std::get_if<TrialStarted>(&event)) {
      link_.Say(PartStarted{started->trial});
    } else if (const auto* said = std::get_if<TrialSaid>(&event)) {
      const auto* word = std::get_if<Finished>(&said->message);
      if (word != nullptr) words_[said->trial] = *word;
    } else if (const auto* exited = std::get_if<TrialExited>(&event)) {
      PartEnded ended{.exited = *exited};
      if (auto word = words_.extract(exited->trial)) {
        ended.word = std::move(word.mapped());
      }
      link_.Say(ended);
    }
  }

  RunnerLink& link_;
  Clock clock_;
  const int rank_;
  const std::string secret_;
  const std::vector<std::filesystem::path> roots_;
  const Duration answer_patience_;
  const std::function<void(const std::string& line)> notice_;
  std::map<TrialId, Finished> words_;
  int signal_ = 0;
  std::optional<Duration> tell_at_;
  std::optional<Duration> told_at_;
  LocalLauncher launcher_;
};

}  // namespace

std::string ObjectionTo(const TrialSpec& spec,
                        const std::vector<std::filesystem::path>& roots) {
  if (spec.task != Task::kTrain || !spec.command.empty() ||
      !spec.images.empty() || !spec.address) {
    return "the runner orders something else than the training of a model "
           "together";
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
    taken.emplace_back("the checkpoint to begin from", spec.warm_start);
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
           ", lies outside of what this process takes files from (" +
           EscapeForTerminal(Join(places, ", ")) +
           "); give all processes the same store (--store)";
  }
  return "";
}

int Follow(FollowerOptions options) {
  const std::unique_ptr<RunnerLink> link = Join(options);
  if (options.notice) options.notice("following " + link->peer());
  link->Joined();
  const NodeOrder first = link->Await();
  if (std::holds_alternative<Goodbye>(first)) return 0;
  const auto* begun = std::get_if<ExperimentBegun>(&first);
  if (begun == nullptr) {
    throw Error(ErrorKind::kFailed,
                link->peer() + " spoke of trials before its experiment");
  }
  options.launcher.experiment = begun->experiment;
  return FollowedTrials(*link, std::move(options)).Run();
}

}  // namespace dtrain

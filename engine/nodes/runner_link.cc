#include "engine/nodes/runner_link.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <poll.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/ranks/peer_proof.h"

namespace dtrain {
namespace {

constexpr Duration kConnect = std::chrono::seconds(5);
constexpr Duration kRetry = std::chrono::milliseconds(500);
constexpr Duration kProof = std::chrono::seconds(10);
// A runner that is exiting may close a connection that it would accept.
constexpr Duration kRefused = std::chrono::seconds(3);
// More than any specification.
constexpr std::size_t kLongestOrder = std::size_t{8} << 20;

void PollFor(int fd, short events, Duration limit) {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
  pollfd entry{.fd = fd, .events = events, .revents = 0};
  ::poll(&entry, 1, static_cast<int>(std::max<long>(milliseconds, 0)));
}

}  // namespace

RunnerLink::RunnerLink(UniqueFd socket, const PeerProof& proof,
                       std::string secret, const HostPort& runner, Clock clock)
    : secret_(std::move(secret)),
      clock_(clock),
      channel_(std::move(socket), proof.Session(),
               "the runner at " + ToString(runner), kLongestOrder, clock,
               kRunnerSilence) {}

void RunnerLink::Send(const NodeReport& report) {
  try {
    channel_.Write(EncodeReport(report));
    const Duration end = clock_.monotonic() + kNodeSilence;
    while (channel_.wants_write()) {
      if (clock_.monotonic() >= end) {
        throw Error(ErrorKind::kFailed, "it reads nothing");
      }
      PollFor(fd(), POLLOUT, end - clock_.monotonic());
      channel_.Flush();
    }
  } catch (const Error& error) {
    Lose(error.what());
  }
}

std::optional<NodeOrder> RunnerLink::Receive() {
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

NodeOrder RunnerLink::Await() {
  while (true) {
    std::optional<NodeOrder> order = Receive();
    if (order && !std::holds_alternative<Alive>(*order)) return *order;
    if (!order) PollFor(fd(), POLLIN, TimeLeft());
  }
}

Duration RunnerLink::TimeLeft() const {
  return std::max(channel_.Deadline() - clock_.monotonic(), Duration(0));
}

void RunnerLink::Lose(const std::string& why) const {
  throw Error(ErrorKind::kFailed,
              "lost " + peer() + ": " + EscapeForTerminal(why) +
                  (loss_advice_.empty() ? "" : "; " + loss_advice_));
}

namespace {

// Result of an attempt to join the runner: a link, or an obstacle that may go
// away within `patience`.
struct JoinAttempt {
  std::unique_ptr<RunnerLink> link;
  std::string obstacle;
  Duration patience{0};
};

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
JoinAttempt TryToJoin(const JoinOptions& options) {
  UniqueFd socket = ConnectTo(options.runner, kConnect);
  const std::optional<std::string> secret = options.secret.Read();
  if (!secret) {
    return {.obstacle = options.name + "there is no " + options.secret.Name() +
                        ", which authenticates the processes of several "
                        "machines; " +
                        options.same_secret,
            .patience = options.secret_patience};
  }
  PeerProof proof(
      PeerProof::Side::kConnects,
      {.secret = *secret, .purpose = kWorkersPurpose, .claim = options.claim});
  if (!ProveSecret(proof, socket.get(), options.runner, options.clock)) {
    return {.obstacle = options.name + "the process at " +
                        EscapeForTerminal(ToString(options.runner)) +
                        " has a different secret from " +
                        options.secret.Name() +
                        ", or is not a dtrain runner; " + options.same_secret,
            .patience = kRefused};
  }
  auto link = std::make_unique<RunnerLink>(std::move(socket), proof, *secret,
                                           options.runner, options.clock);
  const NodeOrder answer = link->Await();
  if (const auto* refused = std::get_if<NodeRefused>(&answer)) {
    throw Error(ErrorKind::kUsage, options.name + link->peer() +
                                       " rejected this process: " +
                                       EscapeForTerminal(refused->reason));
  }
  return {.link = std::move(link)};
}

}  // namespace

std::unique_ptr<RunnerLink> JoinRunner(const JoinOptions& options) {
  const Clock& clock = options.clock;
  const Duration end = clock.monotonic() + options.patience;
  std::optional<Duration> obstacle_since;
  // An invalid secret is an error before there is a runner.
  (void)options.secret.Read();
  while (true) {
    try {
      JoinAttempt attempt = TryToJoin(options);
      if (attempt.link) return std::move(attempt.link);
      const Duration now = clock.monotonic();
      if (!obstacle_since) {
        obstacle_since = now;
        if (options.notice) options.notice("warning: " + attempt.obstacle);
      }
      if (now - *obstacle_since >=
          std::min(attempt.patience, options.patience)) {
        throw Error(ErrorKind::kUsage, attempt.obstacle);
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kFailed) throw;
      if (clock.monotonic() >= end) {
        throw Error(ErrorKind::kFailed,
                    options.address + ": no runner answered within " +
                        FormatDuration(options.patience) + ": " + error.what() +
                        "; " + options.start_there);
      }
    }
    std::this_thread::sleep_for(kRetry);
  }
}

}  // namespace dtrain

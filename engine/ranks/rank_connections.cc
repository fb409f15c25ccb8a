#include "engine/ranks/rank_connections.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>

#include <poll.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/ranks/peer_proof.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kConnect{30};
// A name or a route may be slow to come up on a machine that has just started.
constexpr seconds kKeepTrying{30};
constexpr milliseconds kRetry{500};
// Rank 0 takes few connections of one machine at one time, and turns others
// away.
constexpr int kBusyMilliseconds = 20;
constexpr int kPollMilliseconds = 100;
constexpr char kPurpose[] = "ranks of a trial";

/// What a rank claims on each of its connections. Of another byte order, the
/// magic number is another one, too.
struct Hello {
  static constexpr std::uint64_t kMagic = 0x326e6f697472646bULL;

  std::uint64_t magic = kMagic;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  std::uint32_t purpose = 0;
  std::uint32_t unused = 0;
};

std::string ClaimOf(const Hello& hello) {
  return {reinterpret_cast<const char*>(&hello), sizeof hello};
}

RankConnections::Sockets NoSockets(int ranks) {
  RankConnections::Sockets sockets;
  for (auto& of_purpose : sockets) {
    of_purpose.resize(static_cast<std::size_t>(ranks));
  }
  return sockets;
}

// Takes in the others until all of them have come.
class Reception {
 public:
  Reception(UniqueFd listener, const NetworkMeeting& meeting)
      : pending_(std::move(listener), meeting.token, kPurpose, Clock::System()),
        meeting_(meeting),
        sockets_(NoSockets(meeting.ranks)) {}

  RankConnections::Sockets AwaitAll() {
    while (!Missing().empty()) {
      if (meeting_.give_up && meeting_.give_up()) {
        throw Error(ErrorKind::kFailed,
                    "gave up waiting for the ranks of the trial: there is no " +
                        Join(Missing(), ", ") + " yet");
      }
      pollfd entry{.fd = pending_.fd(), .events = POLLIN, .revents = 0};
      ::poll(&entry, 1, kPollMilliseconds);
      for (ProvedPeer& peer : pending_.Serve()) Take(peer);
    }
    return std::move(sockets_);
  }

 private:
  std::vector<std::string> Missing() const {
    std::vector<std::string> missing;
    for (int rank = 1; rank < meeting_.ranks; ++rank) {
      const auto number = static_cast<std::size_t>(rank);
      const bool here = std::ranges::all_of(
          sockets_, [&](const auto& all) { return bool(all[number]); });
      if (!here) missing.push_back("rank " + std::to_string(rank));
    }
    return missing;
  }

  void Take(ProvedPeer& peer) {
    const std::string& claim = peer.proof.claim();
    Hello hello;
    if (claim.size() != sizeof hello) return;
    std::memcpy(&hello, claim.data(), sizeof hello);
    const bool expected =
        hello.magic == Hello::kMagic &&
        hello.ranks == static_cast<std::uint32_t>(meeting_.ranks) &&
        hello.rank > 0 && hello.rank < hello.ranks &&
        hello.purpose < sockets_.size() && !sockets_[hello.purpose][hello.rank];
    if (expected && peer.proof.Welcome(peer.socket.get())) {
      sockets_[hello.purpose][hello.rank] = std::move(peer.socket);
    }
  }

  PendingPeers pending_;
  const NetworkMeeting& meeting_;
  RankConnections::Sockets sockets_;
};

UniqueFd ConnectPatiently(const NetworkMeeting& meeting) {
  const auto end = steady_clock::now() + kKeepTrying;
  while (true) {
    try {
      return ConnectTo(meeting.first, kConnect);
    } catch (const Error& error) {
      const bool gives_up = meeting.give_up && meeting.give_up();
      if (steady_clock::now() < end && !gives_up) {
        std::this_thread::sleep_for(kRetry);
        continue;
      }
      throw Error(ErrorKind::kFailed,
                  "rank 0 of the trial cannot be reached: " +
                      std::string(error.what()) +
                      "; let the machines of the trial connect to each other "
                      "on any port");
    }
  }
}

// Rank 0 answers once it lives, which may have to wait for its slots.
UniqueFd JoinRank0(const NetworkMeeting& meeting, std::size_t purpose) {
  const std::string claim =
      ClaimOf({.rank = static_cast<std::uint32_t>(meeting.rank),
               .ranks = static_cast<std::uint32_t>(meeting.ranks),
               .purpose = static_cast<std::uint32_t>(purpose)});
  std::optional<steady_clock::time_point> end;
  while (true) {
    UniqueFd socket = ConnectPatiently(meeting);
    PeerProof proof(
        PeerProof::Side::kConnects,
        {.secret = meeting.token, .purpose = kPurpose, .claim = claim});
    switch (AwaitProof(proof, socket.get(), meeting.give_up)) {
      case PeerProof::State::kProved:
        return socket;
      case PeerProof::State::kWaiting:
        throw Error(ErrorKind::kFailed,
                    "gave up waiting for rank 0 of the trial");
      case PeerProof::State::kClosed:
        if (!end) end = steady_clock::now() + kKeepTrying;
        if (steady_clock::now() < *end) break;
        [[fallthrough]];
      case PeerProof::State::kRefused:
        throw Error(ErrorKind::kFailed,
                    "rank 0 of the trial at " + ToString(meeting.first) +
                        " is gone, or does not know this rank");
    }
    // Not all at the same time.
    std::this_thread::sleep_for(
        milliseconds(kBusyMilliseconds + meeting.rank % 64));
  }
}

}  // namespace

std::unique_ptr<RankConnections> AwaitRanks(UniqueFd listener,
                                            const NetworkMeeting& meeting) {
  Reception reception(std::move(listener), meeting);
  return std::make_unique<RankConnections>(0, meeting.ranks,
                                           reception.AwaitAll());
}

std::unique_ptr<RankConnections> JoinRanks(const NetworkMeeting& meeting) {
  RankConnections::Sockets sockets = NoSockets(1);
  for (std::size_t purpose = 0; purpose < sockets.size(); ++purpose) {
    sockets[purpose][0] = JoinRank0(meeting, purpose);
  }
  return std::make_unique<RankConnections>(meeting.rank, meeting.ranks,
                                           std::move(sockets));
}

}  // namespace dtrain

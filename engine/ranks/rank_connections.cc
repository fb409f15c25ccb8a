// Rendezvous of the ranks of a trial on several machines.
//
// Rank 0 listens. Every other rank connects to it once for each purpose: a
// connection per channel of collectives and one for failures. On each one both
// ends prove that they know the trial's token (peer_proof.h), and the
// connecting rank claims a rank and a purpose. Rank 0 welcomes a claim that it
// still waits for and closes any other connection. Ranks start in any order and
// retry: machines that have just started resolve names late, and rank 0 serves
// only a few unproved connections of one address at a time.
#include "engine/ranks/rank_connections.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>

#include <poll.h>
#include <sys/socket.h>

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/ranks/peer_proof.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kConnect{30};
// Names and routes may come up late on a machine that has just started.
constexpr seconds kKeepTrying{30};
constexpr milliseconds kRetry{500};
// Rank 0 closes connections of a machine that has too many unproved ones.
constexpr int kBusyMilliseconds = 20;
constexpr int kPollMilliseconds = 100;
constexpr char kPurpose[] = "ranks of a trial";

// A rank's claim on each of its connections. The magic number also reveals
// another byte order.
struct Hello {
  static constexpr std::uint64_t kMagic = 0x326e6f697472646bULL;

  std::uint64_t magic = kMagic;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  std::uint32_t purpose = 0;
  std::uint32_t unused = 0;
};

std::string EncodeHello(const Hello& hello) {
  return {reinterpret_cast<const char*>(&hello), sizeof hello};
}

RankConnections::Sockets NoSockets(int ranks) {
  RankConnections::Sockets sockets;
  for (auto& of_purpose : sockets) {
    of_purpose.resize(static_cast<std::size_t>(ranks));
  }
  return sockets;
}

// Accepts the other ranks' connections.
class Reception {
 public:
  Reception(UniqueFd listener, const Rendezvous& rendezvous)
      : pending_(std::move(listener), rendezvous.token, kPurpose,
                 Clock::System()),
        rendezvous_(rendezvous),
        sockets_(NoSockets(rendezvous.ranks)) {}

  RankConnections::Sockets AwaitAll() {
    while (!Missing().empty()) {
      if (rendezvous_.give_up && rendezvous_.give_up()) {
        throw Error(ErrorKind::kFailed,
                    "gave up waiting for the ranks of the trial: missing " +
                        Join(Missing(), ", "));
      }
      pollfd entry{.fd = pending_.fd(), .events = POLLIN, .revents = 0};
      ::poll(&entry, 1, kPollMilliseconds);
      for (ProvedPeer& peer : pending_.Serve()) Admit(peer);
    }
    return std::move(sockets_);
  }

 private:
  std::vector<std::string> Missing() const {
    std::vector<std::string> missing;
    for (int rank = 1; rank < rendezvous_.ranks; ++rank) {
      const auto number = static_cast<std::size_t>(rank);
      const bool here = std::ranges::all_of(
          sockets_, [&](const auto& all) { return bool(all[number]); });
      if (!here) missing.push_back("rank " + std::to_string(rank));
    }
    return missing;
  }

  void Admit(ProvedPeer& peer) {
    const std::string& claim = peer.proof.claim();
    Hello hello;
    if (claim.size() != sizeof hello) return;
    std::memcpy(&hello, claim.data(), sizeof hello);
    const bool expected =
        hello.magic == Hello::kMagic &&
        hello.ranks == static_cast<std::uint32_t>(rendezvous_.ranks) &&
        hello.rank > 0 && hello.rank < hello.ranks &&
        hello.purpose < sockets_.size() && !sockets_[hello.purpose][hello.rank];
    if (expected && peer.proof.Welcome(peer.socket.get())) {
      sockets_[hello.purpose][hello.rank] = std::move(peer.socket);
    }
  }

  PendingConnections pending_;
  const Rendezvous& rendezvous_;
  RankConnections::Sockets sockets_;
};

UniqueFd ConnectPatiently(const Rendezvous& rendezvous) {
  const auto end = steady_clock::now() + kKeepTrying;
  while (true) {
    try {
      return ConnectTo(rendezvous.first, kConnect);
    } catch (const Error& error) {
      const bool gives_up = rendezvous.give_up && rendezvous.give_up();
      if (steady_clock::now() < end && !gives_up) {
        std::this_thread::sleep_for(kRetry);
        continue;
      }
      throw Error(ErrorKind::kFailed,
                  "rank 0 of the trial cannot be reached: " +
                      std::string(error.what()) +
                      "; allow connections on any port between the machines of "
                      "the trial");
    }
  }
}

// Rank 0 answers once its process runs, which may have to wait for slots.
UniqueFd JoinRank0(const Rendezvous& rendezvous, std::size_t purpose) {
  const std::string claim =
      EncodeHello({.rank = static_cast<std::uint32_t>(rendezvous.rank),
                   .ranks = static_cast<std::uint32_t>(rendezvous.ranks),
                   .purpose = static_cast<std::uint32_t>(purpose)});
  std::optional<steady_clock::time_point> end;
  while (true) {
    UniqueFd socket = ConnectPatiently(rendezvous);
    PeerProof proof(
        PeerProof::Side::kConnects,
        {.secret = rendezvous.token, .purpose = kPurpose, .claim = claim});
    switch (AwaitProof(proof, socket.get(), rendezvous.give_up)) {
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
                    "rank 0 of the trial at " + ToString(rendezvous.first) +
                        " is gone, or did not accept this rank");
    }
    // Ranks retry at different times.
    std::this_thread::sleep_for(
        milliseconds(kBusyMilliseconds + rendezvous.rank % 64));
  }
}

// Returns the bytes of an IP address; those of an IPv4 address that is mapped
// to IPv6 are the IPv4 address.
std::string AddressBytes(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& ip = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    return {reinterpret_cast<const char*>(&ip), sizeof ip};
  }
  if (address.sa_family != AF_INET6) return "";
  const auto& ip = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  const std::string bytes(reinterpret_cast<const char*>(&ip), sizeof ip);
  return IN6_IS_ADDR_V4MAPPED(&ip) ? bytes.substr(12) : bytes;
}

// Returns the interface that has the local address of a socket; empty for a
// loopback interface.
std::string FindInterface(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  ifaddrs* list = nullptr;
  if (::getsockname(socket, generic, &size) != 0 || ::getifaddrs(&list) != 0) {
    return "";
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, ::freeifaddrs);
  const std::string wanted = AddressBytes(*generic);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    const bool is_loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
    if (at->ifa_addr == nullptr || is_loopback) continue;
    if (AddressBytes(*at->ifa_addr) == wanted) return at->ifa_name;
  }
  return "";
}

}  // namespace

std::string RankConnections::Interface() const {
  for (const UniqueFd& socket : sockets_.front()) {
    if (!socket) continue;
    std::string name = FindInterface(socket.get());
    if (!name.empty()) return name;
  }
  return "";
}

std::unique_ptr<RankConnections> AwaitRanks(UniqueFd listener,
                                            const Rendezvous& rendezvous) {
  Reception reception(std::move(listener), rendezvous);
  return std::make_unique<RankConnections>(0, rendezvous.ranks,
                                           reception.AwaitAll());
}

std::unique_ptr<RankConnections> JoinRanks(const Rendezvous& rendezvous) {
  RankConnections::Sockets sockets = NoSockets(1);
  for (std::size_t purpose = 0; purpose < sockets.size(); ++purpose) {
    sockets[purpose][0] = JoinRank0(rendezvous, purpose);
  }
  return std::make_unique<RankConnections>(rendezvous.rank, rendezvous.ranks,
                                           std::move(sockets));
}

}  // namespace dtrain

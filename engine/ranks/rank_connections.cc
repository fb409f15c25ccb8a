#include "engine/ranks/rank_connections.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <list>
#include <thread>

#include <poll.h>
#include <sys/socket.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kHello{10};
constexpr seconds kConnect{30};
// A name or a route may be slow to come up on a machine that has just started.
constexpr seconds kKeepTrying{30};
constexpr milliseconds kRetry{500};
constexpr int kPollMilliseconds = 100;
// Strangers at one time; more of them wait for those to be turned away.
constexpr std::size_t kMostNewcomers = 256;
constexpr std::uint8_t kWelcome = 'w';

/// The first that a rank says on each of its connections. Of another byte
/// order, the magic number is another one, too.
struct Hello {
  static constexpr std::uint64_t kMagic = 0x316e6f697472646bULL;

  std::uint64_t magic = kMagic;
  std::array<char, 64> token{};
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  std::uint32_t purpose = 0;
  std::uint32_t unused = 0;
};

std::array<char, 64> TokenBytes(const std::string& token) {
  std::array<char, 64> bytes{};
  std::ranges::copy(token.substr(0, bytes.size()), bytes.begin());
  return bytes;
}

RankConnections::Sockets NoSockets(int ranks) {
  RankConnections::Sockets sockets;
  for (auto& of_purpose : sockets) {
    of_purpose.resize(static_cast<std::size_t>(ranks));
  }
  return sockets;
}

void Poll(std::vector<pollfd>& entries) {
  ::poll(entries.data(), entries.size(), kPollMilliseconds);
}

// Takes in what the others say until all of them have come.
class Reception {
 public:
  Reception(UniqueFd listener, const NetworkMeeting& meeting)
      : listener_(std::move(listener)),
        meeting_(meeting),
        token_(TokenBytes(meeting.token)),
        sockets_(NoSockets(meeting.ranks)) {}

  RankConnections::Sockets AwaitAll() {
    while (!Missing().empty()) {
      if (meeting_.give_up && meeting_.give_up()) {
        throw Error(ErrorKind::kFailed,
                    "gave up waiting for the ranks of the trial: there is no " +
                        Join(Missing(), ", ") + " yet");
      }
      AwaitNews();
      Accept();
      std::erase_if(newcomers_, [this](Newcomer& newcomer) {
        return steady_clock::now() > newcomer.until || !Hear(newcomer);
      });
    }
    return std::move(sockets_);
  }

 private:
  struct Newcomer {
    UniqueFd socket;
    steady_clock::time_point until;
    Hello hello;
    std::size_t heard = 0;
  };

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

  void AwaitNews() const {
    std::vector<pollfd> entries;
    if (newcomers_.size() < kMostNewcomers) {
      entries.push_back({.fd = listener_.get(), .events = POLLIN});
    }
    for (const Newcomer& newcomer : newcomers_) {
      entries.push_back({.fd = newcomer.socket.get(), .events = POLLIN});
    }
    Poll(entries);
  }

  void Accept() {
    while (newcomers_.size() < kMostNewcomers) {
      UniqueFd socket = AcceptFrom(listener_.get());
      if (!socket) return;
      newcomers_.push_back(
          {.socket = std::move(socket), .until = steady_clock::now() + kHello});
    }
  }

  // False once it is welcomed or turned away.
  bool Hear(Newcomer& newcomer) {
    auto* const bytes = reinterpret_cast<char*>(&newcomer.hello);
    const ssize_t count = ::recv(newcomer.socket.get(), bytes + newcomer.heard,
                                 sizeof(Hello) - newcomer.heard, MSG_DONTWAIT);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    newcomer.heard += static_cast<std::size_t>(count);
    if (count == 0) return false;
    if (newcomer.heard < sizeof(Hello)) return true;
    if (IsExpected(newcomer.hello)) Welcome(newcomer);
    return false;
  }

  bool IsExpected(const Hello& hello) const {
    return hello.magic == Hello::kMagic && hello.token == token_ &&
           hello.ranks == static_cast<std::uint32_t>(meeting_.ranks) &&
           hello.rank > 0 && hello.rank < hello.ranks &&
           hello.purpose < sockets_.size() &&
           !sockets_[hello.purpose][hello.rank];
  }

  void Welcome(Newcomer& newcomer) {
    const Hello& hello = newcomer.hello;
    const ssize_t sent =
        ::send(newcomer.socket.get(), &kWelcome, sizeof kWelcome, MSG_NOSIGNAL);
    if (sent != sizeof kWelcome) return;
    sockets_[hello.purpose][hello.rank] = std::move(newcomer.socket);
  }

  UniqueFd listener_;
  const NetworkMeeting& meeting_;
  const std::array<char, 64> token_;
  RankConnections::Sockets sockets_;
  std::list<Newcomer> newcomers_;
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

// It comes once rank 0 lives, which may have to wait for its slots.
void AwaitWelcome(int socket, const NetworkMeeting& meeting) {
  std::uint8_t answer = 0;
  while (true) {
    const ssize_t count = ::recv(socket, &answer, sizeof answer, MSG_DONTWAIT);
    if (count == 1 && answer == kWelcome) return;
    if (count >= 0 || (errno != EAGAIN && errno != EINTR)) {
      throw Error(ErrorKind::kFailed,
                  "rank 0 of the trial at " + ToString(meeting.first) +
                      " is gone, or does not know this rank");
    }
    if (meeting.give_up && meeting.give_up()) {
      throw Error(ErrorKind::kFailed,
                  "gave up waiting for rank 0 of the trial");
    }
    std::vector<pollfd> entries = {{.fd = socket, .events = POLLIN}};
    Poll(entries);
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
  Hello hello{.token = TokenBytes(meeting.token),
              .rank = static_cast<std::uint32_t>(meeting.rank),
              .ranks = static_cast<std::uint32_t>(meeting.ranks)};
  for (std::size_t purpose = 0; purpose < sockets.size(); ++purpose) {
    UniqueFd& socket = sockets[purpose][0];
    socket = ConnectPatiently(meeting);
    hello.purpose = static_cast<std::uint32_t>(purpose);
    // A new socket has room for so little.
    [[maybe_unused]] const ssize_t sent =
        ::send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL);
  }
  for (const auto& of_purpose : sockets) {
    AwaitWelcome(of_purpose[0].get(), meeting);
  }
  return std::make_unique<RankConnections>(meeting.rank, meeting.ranks,
                                           std::move(sockets));
}

}  // namespace dtrain

#include "engine/ranks/network_collectives.h"

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <thread>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "engine/base/error.h"
#include "tests/engine/ranks/run_ranks.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr char kToken[] = "0123456789abcdef";

// An interface with an IPv4 address.
struct Interface {
  std::string name;
  std::string address;
};

// Returns the first interface of this machine, or none that has an address.
Interface FirstInterface(bool loopback) {
  ifaddrs* list = nullptr;
  Interface found;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    if (((at->ifa_flags & IFF_LOOPBACK) != 0) != loopback) continue;
    char text[INET_ADDRSTRLEN] = "";
    const auto* ip = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
    ::inet_ntop(AF_INET, &ip->sin_addr, text, sizeof text);
    found = {at->ifa_name, text};
    break;
  }
  ::freeifaddrs(list);
  return found;
}

// Returns the interface of ranks that have connected to `address`.
std::string InterfaceOfRanksAt(const std::string& address) {
  const UniqueFd listener = ListenAt({.host = address}, {.only_here = true});
  const HostPort place{address, GetPort(listener.get())};
  RankConnections::Sockets sockets;
  for (auto& of_purpose : sockets) {
    of_purpose.push_back(ConnectTo(place, seconds(5)));
  }
  return RankConnections(1, 2, std::move(sockets)).Interface();
}

TEST(RankConnectionsTest, NamesTheInterfaceOfItsConnections) {
  const Interface network = FirstInterface(/*loopback=*/false);
  if (network.name.empty()) GTEST_SKIP() << "this machine has no network";
  EXPECT_EQ(InterfaceOfRanksAt(network.address), network.name);
}

TEST(RankConnectionsTest, NamesNoLoopbackInterface) {
  EXPECT_EQ(InterfaceOfRanksAt("127.0.0.1"), "");
}

// A trial of two ranks: rank 0 waits for the other one, on a thread.
class RendezvousTest : public testing::Test {
 protected:
  RendezvousTest()
      : listener_(ListenAt({.host = "127.0.0.1"})),
        place_{"127.0.0.1", GetPort(listener_.get())},
        rank0_([this] {
          Rendezvous meeting = MakeRendezvous(0);
          meeting.give_up = [this] { return give_up_.load(); };
          try {
            connections_ = AwaitRanks(std::move(listener_), meeting);
          } catch (const Error& error) {
            error_ = error.what();
          }
        }) {}
  ~RendezvousTest() override { End(); }

  Rendezvous MakeRendezvous(int rank, const std::string& token = kToken) const {
    return {.first = place_, .token = token, .rank = rank, .ranks = 2};
  }
  // Sends `bytes`; what is heard is to be the end.
  void ExpectTurnedAway(const std::string& bytes) const {
    const UniqueFd socket = ConnectTo(place_, seconds(5));
    ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&entry, 1, 60'000), 1);
    char byte = 0;
    EXPECT_LE(::recv(socket.get(), &byte, 1, 0), 0);
  }
  void End() {
    if (rank0_.joinable()) rank0_.join();
  }

  std::atomic<bool> give_up_ = false;
  std::unique_ptr<RankConnections> connections_;
  std::string error_;
  UniqueFd listener_;
  const HostPort place_;
  std::thread rank0_;
};

TEST_F(RendezvousTest, RejectsUnknownPeersAndAcceptsTheRank) {
  ExpectTurnedAway(
      "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/"
      "7.88.1\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n");
  ExpectTurnedAway(std::string(200, '\0'));
  // A silent peer blocks no rank.
  const UniqueFd silent = ConnectTo(place_, seconds(5));

  const auto joined = JoinRanks(MakeRendezvous(1));
  End();

  ASSERT_NE(connections_, nullptr) << error_;
  EXPECT_EQ(joined->ranks(), 2);
}

TEST_F(RendezvousTest, RejectsARankOfAnotherStart) {
  EXPECT_THAT([&] { JoinRanks(MakeRendezvous(1, "another")); },
              ThrowsMessage<Error>(HasSubstr("did not accept this rank")));

  JoinRanks(MakeRendezvous(1));
}

TEST_F(RendezvousTest, SilentPeersDoNotBlockTheRank) {
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(ConnectTo(place_, seconds(5)));
  }

  const auto joined = JoinRanks(MakeRendezvous(1));

  EXPECT_EQ(joined->ranks(), 2);
}

TEST_F(RendezvousTest, RejectsAListenerWithoutTheToken) {
  const UniqueFd impostor = ListenAt({.host = "127.0.0.1"});
  Rendezvous meeting = MakeRendezvous(1);
  meeting.first.port = GetPort(impostor.get());
  std::jthread server([&] {
    UniqueFd guest;
    while (!(guest = AcceptFrom(impostor.get()))) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    const std::string answer(64, 'w');
    ::send(guest.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    pollfd entry{.fd = guest.get(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, 5000);
  });

  EXPECT_THROW(JoinRanks(meeting), Error);
  give_up_ = true;
}

TEST_F(RendezvousTest, RejectsADuplicateRank) {
  Rendezvous third = MakeRendezvous(2);
  EXPECT_THROW(JoinRanks(third), Error);
  third.ranks = 3;
  EXPECT_THROW(JoinRanks(third), Error);

  JoinRanks(MakeRendezvous(1));
}

TEST_F(RendezvousTest, TimesOutAndNamesMissingRanks) {
  give_up_ = true;
  End();

  EXPECT_EQ(error_,
            "gave up waiting for the ranks of the trial: missing rank 1");
}

TEST(NetworkCollectivesTest, DetectsADeadRank) {
  const auto results =
      RunRanks(RankKind::kNetworkProcesses, 3, [](const Seat& seat) {
        const auto group = seat.Group();
        group->Barrier();
        // Simulates the exit of the process; RunRanks expects a clean exit.
        if (seat.rank() == 1) return std::string("left");
        group->Barrier();
        return std::string();
      });

  EXPECT_EQ(results[0].error, "rank 1 failed: its connection was lost");
  EXPECT_EQ(results[2].error, results[0].error);
}

TEST(NetworkCollectivesTest, DetectsTheDeathOfRank0) {
  const auto results =
      RunRanks(RankKind::kNetworkProcesses, 3, [](const Seat& seat) {
        const auto group = seat.Group();
        group->Barrier();
        if (seat.rank() == 0) return std::string("left");
        std::vector<float> values(1'000'000);
        group->AllReduce(values);
        return std::string();
      });

  EXPECT_EQ(results[1].error, "rank 0 failed: its connection was lost");
  EXPECT_EQ(results[2].error, results[1].error);
}

TEST(NetworkCollectivesTest, ReportsTheReasonOfADeadRank) {
  const auto results =
      RunRanks(RankKind::kNetworkProcesses, 3, [](const Seat& seat) {
        const auto group = seat.Group();
        if (seat.rank() == 1) {
          group->SetAborted("out of memory");
          return std::string("left");
        }
        group->Barrier();
        return std::string();
      });

  EXPECT_EQ(results[0].error, "rank 1 failed: out of memory");
  EXPECT_EQ(results[2].error, results[0].error);
}

TEST(NetworkCollectivesTest, TimeoutOfOneRankAbortsAll) {
  const auto results =
      RunRanks(RankKind::kNetworkThreads, 3, [](const Seat& seat) {
        if (seat.rank() == 2) return std::string("never came");
        const auto group =
            seat.Group({.give_up = [&seat] { return seat.rank() == 0; }});
        group->Barrier();
        return std::string();
      });

  EXPECT_EQ(results[0].error, "rank 0 failed: gave up waiting for rank 2");
  EXPECT_EQ(results[1].error, results[0].error);
}

TEST(NetworkCollectivesTest, FinishedRankMayExitWhileOthersRead) {
  const auto results =
      RunRanks(RankKind::kNetworkProcesses, 3, [](const Seat& seat) {
        const auto group = seat.Group();
        if (seat.rank() == 2) std::this_thread::sleep_for(milliseconds(50));
        std::string text(5'000'000, 'x');
        text = group->BroadcastText(std::move(text), 0);
        group->Barrier();
        return std::to_string(text.size());
      });

  for (const RankResult& result : results) {
    EXPECT_EQ(result.value, "5000000") << result.error;
  }
}

}  // namespace
}  // namespace dtrain

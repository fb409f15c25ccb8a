#include "engine/ranks/tcp.h"

#include <string>
#include <thread>

#include <poll.h>
#include <sys/socket.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(TcpTest, WhoConnectsIsHeard) {
  const UniqueFd listener = ListenAt({.host = "127.0.0.1"});
  const HostPort place{"localhost", PortOf(listener.get())};

  const UniqueFd there = ConnectTo(place, seconds(5));
  const UniqueFd here = AcceptFrom(listener.get());

  ASSERT_TRUE(here);
  EXPECT_EQ(::send(there.get(), "hi", 2, 0), 2);
  pollfd entry{.fd = here.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&entry, 1, 5000), 1);
  char text[3] = {};
  EXPECT_EQ(::recv(here.get(), text, 2, 0), 2);
  EXPECT_EQ(std::string(text), "hi");
}

TEST(TcpTest, NobodyToAcceptIsNoWait) {
  EXPECT_FALSE(AcceptFrom(ListenAt({.host = "127.0.0.1"}).get()));
}

TEST(TcpTest, APortInUseIsNamed) {
  const UniqueFd listener = ListenAt({.host = "127.0.0.1"});
  const HostPort place{"127.0.0.1", PortOf(listener.get())};

  EXPECT_THAT([&] { ListenAt(place); },
              ThrowsMessage<Error>(AllOf(HasSubstr(ToString(place)),
                                         HasSubstr("already in use"))));
}

TEST(TcpTest, AnAddressIsListenedOnAlone) {
  std::string notice;
  const UniqueFd listener =
      ListenAt({.host = "127.0.0.1"}, {.notice = &notice});
  const int port = PortOf(listener.get());

  EXPECT_EQ(notice, "");
  EXPECT_TRUE(ConnectTo({"127.0.0.1", port}, seconds(5)));
  EXPECT_THROW(ConnectTo({"127.0.1.1", port}, seconds(5)), Error);
}

TEST(TcpTest, WhereTheHostIsAnotherMachinesAllAddressesAreListenedOn) {
  // Of a range that is reserved for examples.
  std::string notice;
  const UniqueFd listener =
      ListenAt({.host = "192.0.2.1"}, {.notice = &notice});

  EXPECT_TRUE(ConnectTo({"127.0.0.1", PortOf(listener.get())}, seconds(5)));
  EXPECT_EQ(notice, "192.0.2.1 is no address of this machine");
}

// As many a machine's /etc/hosts has its own name.
TEST(TcpTest, WhereTheHostIsANameOfALoopbackAddressAllAreListenedOn) {
  const std::string name = "LOCALHOST";  // as any name but "localhost"
  std::string notice;
  const UniqueFd listener = ListenAt({.host = name}, {.notice = &notice});
  const int port = PortOf(listener.get());

  EXPECT_TRUE(ConnectTo({"127.0.0.1", port}, seconds(5)));
  EXPECT_TRUE(ConnectTo({"127.0.1.1", port}, seconds(5)));
  EXPECT_THAT(notice, HasSubstr("LOCALHOST is a loopback address here"));
}

TEST(TcpTest, WhereAllAreHereALoopbackAddressIsGoodEnough) {
  std::string notice;
  const UniqueFd listener =
      ListenAt({.host = "LOCALHOST"}, {.only_here = true, .notice = &notice});
  const int port = PortOf(listener.get());

  EXPECT_TRUE(ConnectTo({"localhost", port}, seconds(5)));
  EXPECT_THROW(ConnectTo({"127.0.1.1", port}, seconds(5)), Error);
  EXPECT_EQ(notice, "");
}

TEST(TcpTest, WhereTheHostIsANameThatIsNotKnownAllAddressesAreListenedOn) {
  const UniqueFd listener = ListenAt({.host = "no-such-host.invalid"});

  EXPECT_TRUE(ConnectTo({"127.0.1.1", PortOf(listener.get())}, seconds(5)));
}

TEST(TcpTest, NobodyWhoListensIsNamed) {
  int port = 0;
  {
    const UniqueFd listener = ListenAt({.host = "127.0.0.1"});
    port = PortOf(listener.get());
  }

  EXPECT_THAT(
      [&] {
        ConnectTo({"127.0.0.1", port}, seconds(5));
      },
      ThrowsMessage<Error>(HasSubstr("cannot connect to 127.0.0.1:")));
}

TEST(TcpTest, AHostThatIsNotKnownIsNamed) {
  EXPECT_THAT([] { RequireAddress("no-such-host.invalid"); },
              ThrowsMessage<Error>(HasSubstr("no-such-host.invalid: ")));
  EXPECT_NO_THROW(RequireAddress("127.0.0.1"));
}

TEST(TcpTest, AnAddressWithColonsIsInBrackets) {
  EXPECT_EQ(ToString({"::1", 80}), "[::1]:80");
  EXPECT_EQ(ToString({"node1", 29400}), "node1:29400");
}

}  // namespace
}  // namespace dtrain

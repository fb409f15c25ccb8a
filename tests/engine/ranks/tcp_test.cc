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

TEST(TcpTest, WhereTheHostIsAnotherMachinesAllAddressesAreListenedOn) {
  // Of a range that is reserved for examples.
  const UniqueFd listener = ListenAt({.host = "192.0.2.1"});

  EXPECT_TRUE(ConnectTo({"127.0.0.1", PortOf(listener.get())}, seconds(5)));
}

TEST(TcpTest, WhereTheHostIsANameAllAddressesAreListenedOn) {
  const UniqueFd listener = ListenAt({.host = "this-machine"});
  const int port = PortOf(listener.get());

  EXPECT_TRUE(ConnectTo({"127.0.0.1", port}, seconds(5)));
  EXPECT_TRUE(ConnectTo({"127.0.1.1", port}, seconds(5)));
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

#include "engine/os/socket.h"

#include <string>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// The kernel may deliver what was sent, and connections, later than the sender
// continues.
bool IsReadableSoon(const UniqueFd& socket) {
  pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, /*milliseconds=*/60'000) == 1;
}

TEST(TcpTest, AcceptsConnections) {
  const UniqueFd listener = ListenAt({.host = "127.0.0.1"});
  const HostPort place{"localhost", GetPort(listener.get())};

  const UniqueFd there = ConnectTo(place, seconds(5));
  ASSERT_TRUE(IsReadableSoon(listener));
  const UniqueFd here = AcceptFrom(listener.get());

  ASSERT_TRUE(here);
  EXPECT_EQ(::send(there.get(), "hi", 2, 0), 2);
  EXPECT_TRUE(IsReadableSoon(here));
  char text[3] = {};
  EXPECT_EQ(::recv(here.get(), text, 2, 0), 2);
  EXPECT_EQ(std::string(text), "hi");
}

TEST(TcpTest, EndsHaveAddresses) {
  const UniqueFd listener = ListenAt({.host = "::"});
  const UniqueFd guest = ConnectTo(
      {.host = "127.0.0.1", .port = GetPort(listener.get())}, seconds(5));
  ASSERT_TRUE(IsReadableSoon(listener));
  const UniqueFd host = AcceptFrom(listener.get());
  ASSERT_TRUE(host);

  // Not "::ffff:127.0.0.1".
  EXPECT_EQ(GetConnectionEnds(host.get()).mine, "127.0.0.1");
  EXPECT_EQ(GetConnectionEnds(host.get()).peer, "127.0.0.1");
  EXPECT_EQ(GetConnectionEnds(listener.get()).peer, "");
}

TEST(TcpTest, LoopbackAddressesAreKnown) {
  EXPECT_TRUE(IsLoopbackAddress("127.0.1.1"));
  EXPECT_TRUE(IsLoopbackAddress("::1"));
  EXPECT_FALSE(IsLoopbackAddress("10.0.0.1"));
  EXPECT_FALSE(IsLoopbackAddress("fd00::1"));
}

TEST(TcpTest, AcceptDoesNotBlock) {
  EXPECT_FALSE(AcceptFrom(ListenAt({.host = "127.0.0.1"}).get()));
}

TEST(TcpTest, NamesAPortInUse) {
  const UniqueFd listener = ListenAt({.host = "127.0.0.1"});
  const HostPort place{"127.0.0.1", GetPort(listener.get())};

  EXPECT_THAT([&] { ListenAt(place); },
              ThrowsMessage<Error>(AllOf(HasSubstr(ToString(place)),
                                         HasSubstr("already in use"))));
}

TEST(TcpTest, ListensOnTheGivenAddressOnly) {
  std::string notice;
  const UniqueFd listener =
      ListenAt({.host = "127.0.0.1"}, {.notice = &notice});
  const int port = GetPort(listener.get());

  EXPECT_EQ(notice, "");
  EXPECT_TRUE(ConnectTo({"127.0.0.1", port}, seconds(5)));
  EXPECT_THROW(ConnectTo({"127.0.1.1", port}, seconds(5)), Error);
}

TEST(TcpTest, ListensOnAllAddressesIfTheHostIsAnotherMachine) {
  // An address of a range that is reserved for examples.
  std::string notice;
  const UniqueFd listener =
      ListenAt({.host = "192.0.2.1"}, {.notice = &notice});

  EXPECT_TRUE(ConnectTo({"127.0.0.1", GetPort(listener.get())}, seconds(5)));
  EXPECT_EQ(notice, "192.0.2.1 is not an address of this machine");
}

// Many machines' /etc/hosts maps their own name to a loopback address.
TEST(TcpTest, ListensOnAllAddressesIfTheNameIsALoopback) {
  const std::string name = "LOCALHOST";  // as any name but "localhost"
  std::string notice;
  const UniqueFd listener = ListenAt({.host = name}, {.notice = &notice});
  const int port = GetPort(listener.get());

  EXPECT_TRUE(ConnectTo({"127.0.0.1", port}, seconds(5)));
  EXPECT_TRUE(ConnectTo({"127.0.1.1", port}, seconds(5)));
  EXPECT_THAT(notice, HasSubstr("LOCALHOST is a loopback address here"));
}

TEST(TcpTest, ListensOnALoopbackAddressIfAllRanksAreLocal) {
  std::string notice;
  const UniqueFd listener =
      ListenAt({.host = "LOCALHOST"}, {.only_here = true, .notice = &notice});
  const int port = GetPort(listener.get());

  EXPECT_TRUE(ConnectTo({"localhost", port}, seconds(5)));
  EXPECT_THROW(ConnectTo({"127.0.1.1", port}, seconds(5)), Error);
  EXPECT_EQ(notice, "");
}

TEST(TcpTest, ListensOnAllAddressesIfTheNameIsUnknown) {
  const UniqueFd listener = ListenAt({.host = "no-such-host.invalid"});

  EXPECT_TRUE(ConnectTo({"127.0.1.1", GetPort(listener.get())}, seconds(5)));
}

TEST(TcpTest, ReportsARefusedConnection) {
  int port = 0;
  {
    const UniqueFd listener = ListenAt({.host = "127.0.0.1"});
    port = GetPort(listener.get());
  }

  EXPECT_THAT(
      [&] {
        ConnectTo({"127.0.0.1", port}, seconds(5));
      },
      ThrowsMessage<Error>(HasSubstr("cannot connect to 127.0.0.1:")));
}

TEST(TcpTest, NamesAnUnknownHost) {
  EXPECT_THAT([] { RequireAddress("no-such-host.invalid"); },
              ThrowsMessage<Error>(HasSubstr("no-such-host.invalid: ")));
  EXPECT_NO_THROW(RequireAddress("127.0.0.1"));
}

TEST(TcpTest, PutsAnIpv6AddressIntoBrackets) {
  EXPECT_EQ(ToString({"::1", 80}), "[::1]:80");
  EXPECT_EQ(ToString({"node1", 29400}), "node1:29400");
}

class FdPassingTest : public ::testing::Test {
 protected:
  FdPassingTest() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    ours_.reset(ends[0]);
    theirs_.reset(ends[1]);
  }

  static ino_t Inode(int fd) {
    struct stat status {};
    ::fstat(fd, &status);
    return status.st_ino;
  }

  UniqueFd ours_;
  UniqueFd theirs_;
};

TEST_F(FdPassingTest, CarriesTextAlone) {
  ASSERT_TRUE(SendPacket(ours_.get(), "text", {}));
  const auto packet = ReceivePacket(theirs_.get());
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->text, "text");
  EXPECT_TRUE(packet->fds.empty());
}

TEST_F(FdPassingTest, CarriesDescriptorsThatCloseOnExec) {
  const UniqueFd file(::open("/dev/null", O_RDONLY));
  const int fds[] = {file.get()};
  ASSERT_TRUE(SendPacket(ours_.get(), "text", fds));
  const auto packet = ReceivePacket(theirs_.get());
  ASSERT_EQ(packet->fds.size(), 1U);
  EXPECT_EQ(Inode(packet->fds[0].get()), Inode(file.get()));
  EXPECT_EQ(::fcntl(packet->fds[0].get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(FdPassingTest, CarriesMoreDescriptorsThanFitOneMessage) {
  const UniqueFd file(::open("/dev/null", O_RDONLY));
  const std::vector<int> fds(600, file.get());
  ASSERT_TRUE(SendPacket(ours_.get(), "text", fds));
  ASSERT_TRUE(SendPacket(ours_.get(), "next", {}));
  EXPECT_EQ(ReceivePacket(theirs_.get())->fds.size(), 600U);
  EXPECT_EQ(ReceivePacket(theirs_.get())->text, "next");
}

TEST_F(FdPassingTest, EndsWhenThePeerIsGone) {
  ours_.reset();
  EXPECT_FALSE(ReceivePacket(theirs_.get()));
  EXPECT_FALSE(SendPacket(theirs_.get(), "text", {}));
}

}  // namespace
}  // namespace dtrain

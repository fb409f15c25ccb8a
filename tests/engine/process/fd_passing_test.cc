#include "engine/process/fd_passing.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

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

TEST_F(FdPassingTest, CarriesMoreDescriptorsThanOneMessageTakes) {
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

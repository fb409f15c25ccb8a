#include "engine/os/unique_fd.h"

#include <fcntl.h>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

UniqueFd OpenNull() { return UniqueFd(::open("/dev/null", O_RDONLY)); }

TEST(UniqueFdTest, ClosesItsDescriptor) {
  int number = -1;
  {
    const UniqueFd fd = OpenNull();
    number = fd.get();
    ASSERT_TRUE(IsOpen(number));
  }

  EXPECT_FALSE(IsOpen(number));
}

TEST(UniqueFdTest, MovingHandsTheDescriptorOver) {
  UniqueFd from = OpenNull();
  const int number = from.get();

  const UniqueFd to = std::move(from);

  EXPECT_EQ(to.get(), number);
  EXPECT_TRUE(IsOpen(number));
}

TEST(UniqueFdTest, AssigningClosesTheOldDescriptor) {
  UniqueFd fd = OpenNull();
  const int old = fd.get();
  UniqueFd other = OpenNull();

  fd = std::move(other);

  EXPECT_FALSE(IsOpen(old));
  EXPECT_TRUE(IsOpen(fd.get()));
}

TEST(UniqueFdTest, ReleasedDescriptorStaysOpen) {
  UniqueFd fd = OpenNull();
  const int number = fd.release();
  fd.reset();

  EXPECT_TRUE(IsOpen(number));
  EXPECT_FALSE(fd);
  ::close(number);
}

}  // namespace
}  // namespace dtrain

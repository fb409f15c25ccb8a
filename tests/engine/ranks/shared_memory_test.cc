#include "engine/ranks/shared_memory.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(SharedMemoryTest, RefusesMemoryOfAnotherNumberOfRanks) {
  const UniqueFd memory = MakeSharedMemory(2);

  EXPECT_THAT([&] { SharedMemory(memory.get(), 3); },
              ThrowsMessage<Error>(HasSubstr("the shared memory of 3 ranks")));
}

TEST(SharedMemoryTest, RefusesAnotherFile) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));

  EXPECT_THROW(SharedMemory(null.get(), 1), Error);
}

TEST(SharedMemoryTest, RefusesAClosedDescriptor) {
  EXPECT_THAT([] { SharedMemory(-1, 1); },
              ThrowsMessage<Error>(HasSubstr("Bad file descriptor")));
}

TEST(SharedMemoryTest, CannotBeResized) {
  const UniqueFd memory = MakeSharedMemory(2);
  struct stat status {};
  ASSERT_EQ(::fstat(memory.get(), &status), 0);

  EXPECT_EQ(::ftruncate(memory.get(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(memory.get(), status.st_size + 1), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(SharedMemoryTest, IsClosedOnExec) {
  const UniqueFd memory = MakeSharedMemory(1);

  EXPECT_EQ(::fcntl(memory.get(), F_GETFD), FD_CLOEXEC);
}

TEST(SharedMemoryTest, AllocatesOnlyTouchedPages) {
  const UniqueFd memory = MakeSharedMemory(kMaxRanks);
  struct stat status {};
  ASSERT_EQ(::fstat(memory.get(), &status), 0);

  EXPECT_GT(status.st_size, 64 << 20);
  EXPECT_LT(status.st_blocks * 512, 64 << 10);
}

TEST(SharedMemoryTest, StagingStaysWithinTheMemory) {
  const UniqueFd fd = MakeSharedMemory(3);
  const SharedMemory memory(fd.get(), 3);

  const std::byte* const start =
      reinterpret_cast<const std::byte*>(&memory.state());
  EXPECT_EQ(memory.Staging(kChannels - 1, /*rank=*/2, /*buffer=*/1) +
                kSegmentBytes - start,
            static_cast<std::ptrdiff_t>(SharedMemoryBytes(3)));
}

}  // namespace
}  // namespace dtrain

#include "engine/ranks/rank_memory.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/ranks/rank_mapping.h"

namespace dtrain {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(RankMemoryTest, IsNotTakenForThatOfAnotherNumberOfRanks) {
  const UniqueFd memory = MakeRankMemory(2);

  EXPECT_THAT([&] { RankMapping(memory.get(), 3); },
              ThrowsMessage<Error>(HasSubstr("the memory of 3 ranks")));
}

TEST(RankMemoryTest, AnotherFileIsNoMemory) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));

  EXPECT_THROW(RankMapping(null.get(), 1), Error);
}

TEST(RankMemoryTest, AClosedDescriptorIsNoMemory) {
  EXPECT_THAT([] { RankMapping(-1, 1); },
              ThrowsMessage<Error>(HasSubstr("Bad file descriptor")));
}

TEST(RankMemoryTest, NobodyCanResizeIt) {
  const UniqueFd memory = MakeRankMemory(2);
  struct stat status {};
  ASSERT_EQ(::fstat(memory.get(), &status), 0);

  EXPECT_EQ(::ftruncate(memory.get(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(memory.get(), status.st_size + 1), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(RankMemoryTest, IsClosedInWhatIsExecuted) {
  const UniqueFd memory = MakeRankMemory(1);

  EXPECT_EQ(::fcntl(memory.get(), F_GETFD), FD_CLOEXEC);
}

TEST(RankMemoryTest, TakesMemoryOnlyWhereItIsTouched) {
  const UniqueFd memory = MakeRankMemory(kMaxRanks);
  struct stat status {};
  ASSERT_EQ(::fstat(memory.get(), &status), 0);

  EXPECT_GT(status.st_size, 64 << 20);
  EXPECT_LT(status.st_blocks * 512, 64 << 10);
}

TEST(RankMemoryTest, StagingEndsWithTheMemory) {
  const UniqueFd memory = MakeRankMemory(3);
  const RankMapping mapping(memory.get(), 3);

  const std::byte* const start =
      reinterpret_cast<const std::byte*>(&mapping.state());
  EXPECT_EQ(mapping.Staging(kLanes - 1, /*rank=*/2, /*buffer=*/1) +
                kSegmentBytes - start,
            static_cast<std::ptrdiff_t>(RankMemoryBytes(3)));
}

}  // namespace
}  // namespace dtrain

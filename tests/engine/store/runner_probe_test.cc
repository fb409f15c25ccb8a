#include "engine/store/runner_probe.h"

#include <filesystem>

#include <fcntl.h>

#include <gtest/gtest.h>

#include "engine/os/unique_fd.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

TEST(RunnerProbeTest, SeesALockThatIsHeld) {
  const TemporaryDirectory directory;
  const StoreLayout layout(directory.path());
  EXPECT_FALSE(HasRunner(layout));
  std::filesystem::create_directories(layout.Experiment(3));
  UniqueFd file(
      ::open(layout.RunnerLock(3).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_FALSE(HasRunner(layout));
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  ASSERT_EQ(::fcntl(file.get(), F_OFD_SETLK, &range), 0);

  EXPECT_TRUE(HasRunner(layout));

  file.reset();
  EXPECT_FALSE(HasRunner(layout));
}

}  // namespace
}  // namespace dtrain

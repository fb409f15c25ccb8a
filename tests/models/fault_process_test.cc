#include "models/fault_process.h"

#include <fstream>
#include <stdexcept>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStdout;

TEST(FaultProcessTest, FloodsTheLogWithLinesOfTheLengthAskedFor) {
  CaptureStdout();
  FloodLog(/*bytes=*/10, /*line=*/4);
  EXPECT_EQ(GetCapturedStdout(), "xxx\nxxx\nxx");
}

TEST(FaultProcessTest, FloodsTheLogWithALineThatDoesNotEnd) {
  CaptureStdout();
  FloodLog(/*bytes=*/200'000, /*line=*/0);
  EXPECT_EQ(GetCapturedStdout(), std::string(200'000, 'x'));
}

TEST(FaultProcessTest, FloodsTheLogWithLinesLongerThanAChunk) {
  CaptureStdout();
  FloodLog(/*bytes=*/200'000, /*line=*/100'000);
  const std::string line = std::string(99'999, 'x') + '\n';
  EXPECT_EQ(GetCapturedStdout(), line + line);
}

TEST(FaultProcessTest, WritesBytesAsTheyAre) {
  CaptureStdout();
  WriteHex("1b5B00ff");
  EXPECT_EQ(GetCapturedStdout(), std::string("\x1b[\0\xff", 4));
}

TEST(FaultProcessTest, RefusesWhatSpellsNoBytes) {
  EXPECT_THROW(WriteHex("1b5"), std::invalid_argument);
  EXPECT_THROW(WriteHex("zz"), std::invalid_argument);
}

TEST(FaultProcessTest, HoldsMemoryThatIsWrittenTo) {
  const std::vector<std::uint8_t> held = HoldMemory(/*mebibytes=*/2);
  EXPECT_EQ(held.size(), std::size_t{2} << 20);
  EXPECT_EQ(held.back(), 0x5A);
}

TEST(FaultProcessTest, LeavesADaemonInASessionOfItsOwn) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // so that it becomes our child
  SpawnDaemon();
  std::ifstream children("/proc/self/task/" + std::to_string(::getpid()) +
                         "/children");
  pid_t daemon = 0;
  ASSERT_TRUE(children >> daemon);
  EXPECT_NE(::getsid(daemon), ::getsid(0));
  ::kill(daemon, SIGKILL);
  EXPECT_EQ(::waitpid(daemon, nullptr, 0), daemon);
}

}  // namespace
}  // namespace dtrain

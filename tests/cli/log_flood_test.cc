// Trials that print without end. DTRAIN_FLOOD_MB in the environment floods
// with so much more than a test has time for.

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>

#include "tests/support/fault_run.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
constexpr std::int64_t kMostLog = 130 * kMebibyte;  // two files of 64 MiB

std::int64_t FloodMegabytes(std::int64_t otherwise) {
  const char* given = std::getenv("DTRAIN_FLOOD_MB");
  return given == nullptr ? otherwise : std::atoll(given);
}

class LogFloodTest : public FaultRun {
 protected:
  // The most memory that a process has had so far, in MiB.
  static std::int64_t PeakMemory(pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    std::string word;
    while (status >> word && word != "VmHWM:") {
    }
    std::int64_t kibibytes = 0;
    status >> kibibytes;
    return kibibytes / 1024;
  }
  std::int64_t LogBytes() const {
    std::int64_t bytes = 0;
    const fs::path trial = dtrain_.store() / "experiments/1/trials/1";
    for (const auto& entry : fs::directory_iterator(trial)) {
      if (entry.is_regular_file()) {
        bytes += static_cast<std::int64_t>(entry.file_size());
      }
    }
    return bytes;
  }
  // The trial floods, then trains; gives the runner once it trains.
  pid_t Flood(const std::string& hparams, std::int64_t megabytes) const {
    const pid_t runner =
        Start(FaultYaml(hparams + ", step_ms: 10, log_bytes: " +
                            std::to_string(megabytes * 1'000'000),
                        1'000'000));
    AwaitBatches(10);
    return runner;
  }
  void ExpectQuickTail() const {
    const auto start = std::chrono::steady_clock::now();
    const CliResult tail = Run({"logs", "1", "--tail", "10"});
    RecordProperty("tail_ms",
                   static_cast<int>((std::chrono::steady_clock::now() - start) /
                                    std::chrono::milliseconds(1)));
    EXPECT_EQ(tail.code, 0);
    EXPECT_LT(std::chrono::steady_clock::now() - start, Seconds(1));
    EXPECT_THAT(tail.out, HasSubstr("1.1 | "));
  }
  void ExpectBounded(pid_t runner) {
    RecordProperty("runner_mib", static_cast<int>(PeakMemory(runner)));
    RecordProperty("log_bytes", static_cast<int>(LogBytes()));
    EXPECT_GT(PeakMemory(runner), 0);
    EXPECT_LT(PeakMemory(runner), 200);
    EXPECT_LT(LogBytes(), kMostLog);
    ExpectQuickTail();
    EXPECT_EQ(Run({"kill", "1"}).code, 0);
  }
};

TEST_F(LogFloodTest, OfLinesIsCappedAndSaysWhatIsMissing) {
  const pid_t runner = Flood("x: 0", FloodMegabytes(200));
  ExpectBounded(runner);
  EXPECT_THAT(Shell("dtrain logs 1 --head 1").out,
              HasSubstr("bytes of older log were dropped"));
}

TEST_F(LogFloodTest, OfOneEndlessLineIsCutInPieces) {
  const pid_t runner = Flood("log_line: 0", FloodMegabytes(100));
  ExpectBounded(runner);
  EXPECT_LE(Run({"logs", "1", "--tail", "1", "--raw"}).out.size(), 70'000);
}

}  // namespace
}  // namespace dtrain

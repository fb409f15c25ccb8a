#include "engine/store/trial_log_writer.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

class TrialLogWriterTest : public testing::Test {
 protected:
  static std::string Content(const fs::path& path) {
    std::ostringstream content;
    content << std::ifstream(path, std::ios::binary).rdbuf();
    return content.str();
  }
  static LogRecord Record(const std::string& text) {
    return {.time = Timestamp(42), .rank = 1, .text = text};
  }

  TemporaryDirectory directory_;
  fs::path path_ = directory_.path() / "trial/log";
};

TEST_F(TrialLogWriterTest, WritesOneLineARecord) {
  TrialLogWriter log(path_);
  log.Append({.time = Timestamp(42), .rank = 0, .text = "hello"});
  log.Append({.time = Timestamp(43),
              .rank = 12,
              .from_stderr = true,
              .level = LogLevel::kError,
              .partial = true,
              .text = "\xff\x1b[31m"});
  log.Flush();

  EXPECT_EQ(Content(path_), "42 0 o i . hello\n43 12 e e + \xff\x1b[31m\n");
}

TEST_F(TrialLogWriterTest, FileIsForThisUserAlone) {
  TrialLogWriter log(path_);

  EXPECT_EQ(static_cast<int>(fs::status(path_).permissions()), 0600);
}

TEST_F(TrialLogWriterTest, BufferedRecordsAreWrittenAtTheEnd) {
  { TrialLogWriter(path_).Append(Record("last words")); }

  EXPECT_EQ(Content(path_), "42 1 o i . last words\n");
}

TEST_F(TrialLogWriterTest, GoesOnWhereALogEnded) {
  { TrialLogWriter(path_).Append(Record("first run")); }
  { TrialLogWriter(path_).Append(Record("second run")); }

  EXPECT_EQ(Content(path_), "42 1 o i . first run\n42 1 o i . second run\n");
}

TEST_F(TrialLogWriterTest, TornLastLineOfACrashIsEndedFirst) {
  { TrialLogWriter(path_).Append(Record("first run")); }
  std::ofstream(path_, std::ios::app) << "43 1 o i . tor";

  { TrialLogWriter(path_).Append(Record("second run")); }

  EXPECT_EQ(Content(path_),
            "42 1 o i . first run\n43 1 o i . tor\n42 1 o i . second run\n");
}

TEST_F(TrialLogWriterTest, FullFileIsRotated) {
  TrialLogWriter log(path_, /*cap=*/40);
  log.Append(Record("first record"));
  log.Append(Record("second record"));
  log.Flush();

  EXPECT_EQ(Content(path_.string() + ".1"), "42 1 o i . first record\n");
  EXPECT_EQ(Content(path_), "42 1 o i . second record\n");
}

TEST_F(TrialLogWriterTest, SecondRotationSaysWhatItDropped) {
  TrialLogWriter log(path_, /*cap=*/40);
  log.Append(Record("first record"));
  log.Append(Record("second record"));
  log.Append(Record("third record"));
  log.Flush();

  EXPECT_EQ(Content(path_.string() + ".1"), "42 1 o i . second record\n");
  EXPECT_THAT(Content(path_), StartsWith("42 1 e w . dtrain: 24 bytes of older "
                                         "log were dropped"));
  EXPECT_THAT(Content(path_), HasSubstr("third record"));
}

TEST_F(TrialLogWriterTest, UnwritableLogCountsWhatIsLost) {
  fs::create_directories(path_);  // a directory where the file should be
  TrialLogWriter log(path_);
  log.Append(Record("lost"));
  log.Append(Record("lost too"));
  log.Flush();
  fs::remove(path_);

  log.Append(Record("kept"));
  log.Flush();

  EXPECT_THAT(Content(path_),
              StartsWith("42 1 e w . dtrain: 2 lines were lost here"));
  EXPECT_THAT(Content(path_), HasSubstr("42 1 o i . kept\n"));
}

TEST_F(TrialLogWriterTest, MovedWriterGoesOn) {
  TrialLogWriter first(path_);
  first.Append(Record("one"));
  TrialLogWriter second = std::move(first);
  second.Append(Record("two"));
  second.Flush();

  EXPECT_EQ(Content(path_), "42 1 o i . one\n42 1 o i . two\n");
}

}  // namespace
}  // namespace dtrain

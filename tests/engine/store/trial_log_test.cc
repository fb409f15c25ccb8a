#include "engine/store/trial_log.h"

#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

TEST(LogLevelTest, NamesRoundTrip) {
  EXPECT_EQ(LogLevelName(LogLevel::kWarning), "warning");
  EXPECT_EQ(LogLevelFromName("debug"), LogLevel::kDebug);
  EXPECT_EQ(LogLevelFromName("error"), LogLevel::kError);
  EXPECT_THROW(LogLevelFromName("loud"), Error);
}

using testing::ElementsAre;
using testing::IsEmpty;

class LogLineSplitterTest : public testing::Test {
 protected:
  void Feed(std::string_view bytes) {
    splitter_.Feed(bytes, Timestamp(5), Recorder());
  }
  std::function<void(const LogRecord&)> Recorder() {
    return [this](const LogRecord& record) {
      records_.push_back(record);
      texts_.push_back(record.text);
    };
  }

  LogLineSplitter splitter_{/*rank=*/3, /*from_stderr=*/true};
  std::vector<LogRecord> records_;
  std::vector<std::string> texts_;
};

TEST_F(LogLineSplitterTest, CutsAtNewlinesAcrossReads) {
  Feed("one\ntw");
  Feed("o\n\nthr");

  EXPECT_THAT(texts_, ElementsAre("one", "two", ""));
  EXPECT_EQ(records_[0].rank, 3);
  EXPECT_TRUE(records_[0].from_stderr);
  EXPECT_EQ(records_[0].time, Timestamp(5));
}

TEST_F(LogLineSplitterTest, RestAtTheEndIsALine) {
  Feed("one\ntw");
  splitter_.Finish(Timestamp(6), Recorder());
  splitter_.Finish(Timestamp(7), Recorder());

  EXPECT_THAT(texts_, ElementsAre("one", "tw"));
  EXPECT_EQ(records_[1].time, Timestamp(6));
}

TEST_F(LogLineSplitterTest, LevelComesFromThePrefix) {
  Feed("plain\n<3>bad\n<4>odd\n<5>note\n<7>detail\n<0>dead\n");

  EXPECT_THAT(texts_,
              ElementsAre("plain", "bad", "odd", "note", "detail", "dead"));
  EXPECT_EQ(records_[0].level, LogLevel::kInfo);
  EXPECT_EQ(records_[1].level, LogLevel::kError);
  EXPECT_EQ(records_[2].level, LogLevel::kWarning);
  EXPECT_EQ(records_[3].level, LogLevel::kInfo);
  EXPECT_EQ(records_[4].level, LogLevel::kDebug);
  EXPECT_EQ(records_[5].level, LogLevel::kError);
}

// A program may have left the stream within a line.
TEST_F(LogLineSplitterTest, ALineOfDtrainBeginsItsOwn) {
  const std::string own = std::string(kLineBreak) + "<3>dtrain: end\n";
  Feed("<4>boom" + own + own + "\n" + std::string(70'000, 'x') + own + "50%\r" +
       own);

  EXPECT_THAT(texts_, ElementsAre("boom", "dtrain: end", "dtrain: end", "",
                                  std::string(65'536, 'x'),
                                  std::string(70'000 - 65'536, 'x'),
                                  "dtrain: end", "50%\r", "dtrain: end"));
  EXPECT_EQ(records_[0].level, LogLevel::kWarning);
  EXPECT_EQ(records_[1].level, LogLevel::kError);
  EXPECT_FALSE(records_[5].partial);
  EXPECT_EQ(records_[6].level, LogLevel::kError);
}

TEST_F(LogLineSplitterTest, KeepsTextThatOnlyLooksLikeAPrefix) {
  Feed("<8>x\n<3x\n<33>x\n <3>x\n");

  EXPECT_THAT(texts_, ElementsAre("<8>x", "<3x", "<33>x", " <3>x"));
}

TEST_F(LogLineSplitterTest, KeepsAnyBytes) {
  const std::string odd("\0\xff\x1b[2J\r", 7);
  Feed(odd + "\n");

  EXPECT_THAT(texts_, ElementsAre(odd));
}

TEST_F(LogLineSplitterTest, LongLineComesInPieces) {
  Feed("<3>" + std::string(150'000, 'x') + "\nnext\n");

  ASSERT_EQ(records_.size(), 4u);
  EXPECT_TRUE(records_[0].partial);
  EXPECT_TRUE(records_[1].partial);
  EXPECT_FALSE(records_[2].partial);
  EXPECT_EQ(records_[2].level, LogLevel::kError);
  EXPECT_EQ(texts_[0] + texts_[1] + texts_[2], std::string(150'000, 'x'));
  EXPECT_EQ(texts_[3], "next");
  EXPECT_EQ(records_[3].level, LogLevel::kInfo);
}

TEST_F(LogLineSplitterTest, LineOfMaximumLengthIsWhole) {
  Feed(std::string(65'536, 'x') + "\n");

  ASSERT_EQ(records_.size(), 1u);
  EXPECT_FALSE(records_[0].partial);
}

TEST_F(LogLineSplitterTest, EndlessLineIsNotBuffered) {
  Feed(std::string(70'000, 'x'));
  splitter_.Finish(Timestamp(6), Recorder());

  ASSERT_EQ(records_.size(), 2u);
  EXPECT_EQ(texts_[0].size() + texts_[1].size(), 70'000u);
  EXPECT_FALSE(records_[1].partial);
}

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

TEST_F(TrialLogWriterTest, FileIsPrivate) {
  TrialLogWriter log(path_);

  EXPECT_EQ(static_cast<int>(fs::status(path_).permissions()), 0600);
}

TEST_F(TrialLogWriterTest, BufferedRecordsAreWrittenAtTheEnd) {
  { TrialLogWriter(path_).Append(Record("last words")); }

  EXPECT_EQ(Content(path_), "42 1 o i . last words\n");
}

TEST_F(TrialLogWriterTest, AppendsToAnExistingLog) {
  { TrialLogWriter(path_).Append(Record("first run")); }
  { TrialLogWriter(path_).Append(Record("second run")); }

  EXPECT_EQ(Content(path_), "42 1 o i . first run\n42 1 o i . second run\n");
}

TEST_F(TrialLogWriterTest, CompletesATornLastLine) {
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

TEST_F(TrialLogWriterTest, SecondRotationReportsDroppedLines) {
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

TEST_F(TrialLogWriterTest, UnwritableLogCountsLostLines) {
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

TEST_F(TrialLogWriterTest, MovedWriterContinuesToWork) {
  TrialLogWriter first(path_);
  first.Append(Record("one"));
  TrialLogWriter second = std::move(first);
  second.Append(Record("two"));
  second.Flush();

  EXPECT_EQ(Content(path_), "42 1 o i . one\n42 1 o i . two\n");
}

using testing::ElementsAre;
using testing::IsEmpty;

class TrialLogReaderTest : public testing::Test {
 protected:
  static std::vector<std::string> Texts(TrialLogReader& reader) {
    std::vector<std::string> texts;
    while (const auto record = reader.Next()) texts.push_back(record->text);
    return texts;
  }
  static void Append(TrialLogWriter& log, const std::string& text) {
    log.Append({.time = Timestamp(42), .text = text});
    log.Flush();
  }
  void AppendRaw(const std::string& bytes) {
    std::ofstream(path_, std::ios::app | std::ios::binary) << bytes;
  }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "log";
  TrialLogReader reader_{path_};
};

TEST_F(TrialLogReaderTest, MissingLogIsEmptyUntilItExists) {
  EXPECT_THAT(Texts(reader_), IsEmpty());

  TrialLogWriter log(path_);
  Append(log, "now");

  EXPECT_THAT(Texts(reader_), ElementsAre("now"));
}

TEST_F(TrialLogReaderTest, RecordRoundTrips) {
  {
    TrialLogWriter(path_).Append({.time = Timestamp(1'763'711'444'000'001),
                                  .rank = 7,
                                  .from_stderr = true,
                                  .level = LogLevel::kDebug,
                                  .partial = true,
                                  .text = " two  spaces \xff"});
  }

  const auto record = reader_.Next();

  ASSERT_TRUE(record);
  EXPECT_EQ(record->time, Timestamp(1'763'711'444'000'001));
  EXPECT_EQ(record->rank, 7);
  EXPECT_TRUE(record->from_stderr);
  EXPECT_EQ(record->level, LogLevel::kDebug);
  EXPECT_TRUE(record->partial);
  EXPECT_EQ(record->text, " two  spaces \xff");
}

TEST_F(TrialLogReaderTest, SkipsGarbage) {
  AppendRaw("42 0 o i . good\n");
  AppendRaw("\n");
  AppendRaw("hello\n");
  AppendRaw("42 0 x i . stream\n42 0 o z . level\n42 0 o i ? partial\n");
  AppendRaw("99999999999999999999 0 o i . time\n42 rank o i . rank\n42 0 o\n");
  AppendRaw(std::string(500'000, '\0') + "\n");
  AppendRaw("43 0 e w . \n");

  EXPECT_THAT(Texts(reader_), ElementsAre("good", ""));
}

TEST_F(TrialLogReaderTest, PartialRecordWaitsForItsRest) {
  AppendRaw("42 0 o i . he");
  EXPECT_THAT(Texts(reader_), IsEmpty());

  AppendRaw("llo\n");

  EXPECT_THAT(Texts(reader_), ElementsAre("hello"));
}

TEST_F(TrialLogReaderTest, FollowsAcrossARotation) {
  TrialLogWriter log(path_, /*cap=*/40);
  Append(log, "first record");
  EXPECT_THAT(Texts(reader_), ElementsAre("first record"));

  Append(log, "second record");
  EXPECT_THAT(Texts(reader_), ElementsAre("second record"));
}

TEST_F(TrialLogReaderTest, ReadsRecordsWrittenJustBeforeARotation) {
  TrialLogWriter log(path_, /*cap=*/60);
  Append(log, "one");
  EXPECT_THAT(Texts(reader_), ElementsAre("one"));

  Append(log, "two");
  Append(log, "and this one is long enough to rotate");

  EXPECT_THAT(Texts(reader_),
              ElementsAre("two", "and this one is long enough to rotate"));
}

TEST_F(TrialLogReaderTest, ReadsTheRotatedFileFirst) {
  TrialLogWriter log(path_, /*cap=*/40);
  Append(log, "first record");
  Append(log, "second record");

  EXPECT_THAT(Texts(reader_), ElementsAre("first record", "second record"));
}

TEST_F(TrialLogReaderTest, CatchesUpAfterTwoRotations) {
  TrialLogWriter log(path_, /*cap=*/150);
  Append(log, std::string(140, 'a'));
  ASSERT_EQ(Texts(reader_).size(), 1u);

  Append(log, std::string(140, 'b'));
  Append(log, std::string(140, 'c'));
  const auto texts = Texts(reader_);

  ASSERT_EQ(texts.size(), 3u);
  EXPECT_EQ(texts[0], std::string(140, 'b'));
  EXPECT_EQ(texts[2], std::string(140, 'c'));
}

TEST_F(TrialLogReaderTest, TailIsTheLastRecords) {
  AppendRaw("1 0 o i . a\n2 0 o i . b\n3 0 o i . c\n");
  reader_.SeekToTail(2);

  EXPECT_THAT(Texts(reader_), ElementsAre("b", "c"));
  AppendRaw("4 0 o i . d\n");
  EXPECT_THAT(Texts(reader_), ElementsAre("d"));
}

TEST_F(TrialLogReaderTest, TailLongerThanTheLogIsTheWholeLog) {
  AppendRaw("1 0 o i . a\n2 0 o i . b\n");
  reader_.SeekToTail(2);
  EXPECT_THAT(Texts(reader_), ElementsAre("a", "b"));

  TrialLogReader another(path_);
  another.SeekToTail(100);
  EXPECT_THAT(Texts(another), ElementsAre("a", "b"));
}

TEST_F(TrialLogReaderTest, EmptyTailStartsWithNewRecords) {
  AppendRaw("1 0 o i . a\n");
  reader_.SeekToTail(0);
  EXPECT_THAT(Texts(reader_), IsEmpty());

  AppendRaw("2 0 o i . b\n");
  EXPECT_THAT(Texts(reader_), ElementsAre("b"));
}

TEST_F(TrialLogReaderTest, TailReachesIntoTheRotatedFile) {
  TrialLogWriter log(path_, /*cap=*/60);
  Append(log, "one");
  Append(log, "two");
  Append(log, "three is long enough to rotate the log");
  reader_.SeekToTail(2);

  EXPECT_THAT(Texts(reader_),
              ElementsAre("two", "three is long enough to rotate the log"));
}

TEST_F(TrialLogReaderTest, TailOfALongLogReadsFromItsEnd) {
  std::string many;
  for (int i = 0; i < 20'000; ++i) many += "1 0 o i . padding padding\n";
  AppendRaw(many + "2 0 o i . last\n");
  reader_.SeekToTail(10'000);

  const auto texts = Texts(reader_);

  ASSERT_EQ(texts.size(), 10'000u);
  EXPECT_EQ(texts.back(), "last");
}

TEST_F(TrialLogReaderTest, UnreadableLogIsAnError) {
  std::filesystem::create_directories(path_);

  EXPECT_THROW(reader_.Next(), Error);
}

}  // namespace

}  // namespace dtrain

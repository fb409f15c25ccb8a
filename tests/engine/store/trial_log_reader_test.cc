#include "engine/store/trial_log_reader.h"

#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/store/trial_log_writer.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

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

TEST_F(TrialLogReaderTest, MissingLogIsEmptyUntilItComes) {
  EXPECT_THAT(Texts(reader_), IsEmpty());

  TrialLogWriter log(path_);
  Append(log, "now");

  EXPECT_THAT(Texts(reader_), ElementsAre("now"));
}

TEST_F(TrialLogReaderTest, RecordComesBackWhole) {
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

TEST_F(TrialLogReaderTest, GarbageIsPassedOver) {
  AppendRaw("42 0 o i . good\n");
  AppendRaw("\n");
  AppendRaw("hello\n");
  AppendRaw("42 0 x i . stream\n42 0 o z . level\n42 0 o i ? partial\n");
  AppendRaw("99999999999999999999 0 o i . time\n42 rank o i . rank\n42 0 o\n");
  AppendRaw(std::string(500'000, '\0') + "\n");
  AppendRaw("43 0 e w . \n");

  EXPECT_THAT(Texts(reader_), ElementsAre("good", ""));
}

TEST_F(TrialLogReaderTest, HalfARecordWaitsForItsRest) {
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

TEST_F(TrialLogReaderTest, ReadsWhatWasWrittenJustBeforeARotation) {
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

TEST_F(TrialLogReaderTest, TailOfMoreThanThereIsIsEverything) {
  AppendRaw("1 0 o i . a\n2 0 o i . b\n");
  reader_.SeekToTail(2);
  EXPECT_THAT(Texts(reader_), ElementsAre("a", "b"));

  TrialLogReader another(path_);
  another.SeekToTail(100);
  EXPECT_THAT(Texts(another), ElementsAre("a", "b"));
}

TEST_F(TrialLogReaderTest, TailOfNothingIsWhatComesLater) {
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

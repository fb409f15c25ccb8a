#include "engine/store/log_line_splitter.h"

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class LogLineSplitterTest : public testing::Test {
 protected:
  void Feed(std::string_view bytes) {
    splitter_.Feed(bytes, Timestamp(5), Note());
  }
  std::function<void(const LogRecord&)> Note() {
    return [this](const LogRecord& record) {
      records_.push_back(record);
      texts_.push_back(record.text);
    };
  }

  LogLineSplitter splitter_{/*rank=*/3, /*from_stderr=*/true};
  std::vector<LogRecord> records_;
  std::vector<std::string> texts_;
};

TEST_F(LogLineSplitterTest, CutsAtNewlinesWhereverTheBytesAreCut) {
  Feed("one\ntw");
  Feed("o\n\nthr");

  EXPECT_THAT(texts_, ElementsAre("one", "two", ""));
  EXPECT_EQ(records_[0].rank, 3);
  EXPECT_TRUE(records_[0].from_stderr);
  EXPECT_EQ(records_[0].time, Timestamp(5));
}

TEST_F(LogLineSplitterTest, WhatIsLeftAtTheEndIsALine) {
  Feed("one\ntw");
  splitter_.Finish(Timestamp(6), Note());
  splitter_.Finish(Timestamp(7), Note());

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

TEST_F(LogLineSplitterTest, WhatOnlyLooksLikeAPrefixStays) {
  Feed("<8>x\n<3x\n<33>x\n <3>x\n");

  EXPECT_THAT(texts_, ElementsAre("<8>x", "<3x", "<33>x", " <3>x"));
}

TEST_F(LogLineSplitterTest, AnyBytesStayAsTheyAre) {
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

TEST_F(LogLineSplitterTest, LineOfJustTheLongestLengthIsWhole) {
  Feed(std::string(65'536, 'x') + "\n");

  ASSERT_EQ(records_.size(), 1u);
  EXPECT_FALSE(records_[0].partial);
}

TEST_F(LogLineSplitterTest, LongLineThatNeverEndsIsNotKept) {
  Feed(std::string(70'000, 'x'));
  splitter_.Finish(Timestamp(6), Note());

  ASSERT_EQ(records_.size(), 2u);
  EXPECT_EQ(texts_[0].size() + texts_[1].size(), 70'000u);
  EXPECT_FALSE(records_[1].partial);
}

}  // namespace
}  // namespace dtrain

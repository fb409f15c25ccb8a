#include "engine/report/logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

TEST(LogFilterTest, AcceptsEverythingByDefault) {
  EXPECT_TRUE(LogFilter().Accepts({}));
  EXPECT_TRUE(LogFilter().empty());
}

TEST(LogFilterTest, AcceptsTheLevelAndWorse) {
  const LogFilter filter{.least = LogLevel::kWarning};
  EXPECT_FALSE(filter.Accepts({.level = LogLevel::kInfo}));
  EXPECT_TRUE(filter.Accepts({.level = LogLevel::kWarning}));
  EXPECT_TRUE(filter.Accepts({.level = LogLevel::kError}));
}

TEST(LogFilterTest, AcceptsOneRankFromATimeOn) {
  const LogFilter filter{.rank = 1, .since = Timestamp(10)};
  EXPECT_TRUE(filter.Accepts({.time = Timestamp(10), .rank = 1}));
  EXPECT_FALSE(filter.Accepts({.time = Timestamp(9), .rank = 1}));
  EXPECT_FALSE(filter.Accepts({.time = Timestamp(10), .rank = 0}));
  EXPECT_FALSE(filter.Accepts({.time = Timestamp(10), .rank = 2}));
}

TEST(LogFilterTest, TakesTimesAndDurations) {
  const Timestamp now = seconds(1000);
  EXPECT_EQ(ParseLogTime("10m", "--since", now), seconds(400));
  EXPECT_EQ(ParseLogTime("1970-01-01T00:00:07Z", "--since", now), seconds(7));
  EXPECT_EQ(ParseLogTime("10m ago", "--since", now), seconds(400));
  EXPECT_EQ(ParseLogTime("1970-01-01T00:00:07.25Z", "--since", now),
            std::chrono::milliseconds(7250));
  EXPECT_EQ(ParseLogTime("1970-01-01T01:00:07+01:00", "--since", now),
            seconds(7));
  EXPECT_EQ(ParseLogTime("1970-01-01T00:00:07.5-00:30", "--since", now),
            std::chrono::milliseconds(1807500));
  EXPECT_EQ(ParseLogTime("1970-01-02", "--since", now), seconds(86400));
  EXPECT_THROW(ParseLogTime("yesterday", "--since", now), Error);
  EXPECT_THROW(ParseLogTime("1970-01-01T00:00:07+1", "--since", now), Error);
  EXPECT_THROW(ParseLogTime("1970-01-01T00:00:07+01-00", "--since", now),
               Error);
  EXPECT_THROW(ParseLogTime("10m from now", "--since", now), Error);
}

}  // namespace

namespace {

class LogMergerTest : public testing::Test {
 protected:
  LogSource Source(std::int64_t number, std::int64_t begins = 0) const {
    return {.trial = {1, number},
            .path = directory_.path() / std::to_string(number),
            .begins = Timestamp(begins)};
  }
  void Append(std::int64_t number, std::int64_t time, const char* text) {
    TrialLogWriter writer(Source(number).path);
    writer.Append({.time = Timestamp(time), .text = text});
    writer.Flush();
  }
  static std::string Rest(LogMerger& merger) {
    std::string text;
    while (const auto merged = merger.Next()) {
      text += ToString(merged->trial) + merged->record.text + " ";
    }
    return text;
  }

  TemporaryDirectory directory_;
};

TEST_F(LogMergerTest, ReturnsRecordsByTime) {
  Append(1, 10, "a");
  Append(1, 30, "c");
  Append(2, 20, "b");
  LogMerger merger;
  merger.Add(Source(2));
  merger.Add(Source(1));
  EXPECT_EQ(Rest(merger), "1.1a 1.2b 1.1c ");
}

TEST_F(LogMergerTest, OpensALogWhenItsTimeComes) {
  Append(1, 10, "a");
  Append(1, 30, "c");
  Append(2, 20, "b");
  LogMerger merger;
  merger.Add(Source(2, /*begins=*/15));
  merger.Add(Source(1, /*begins=*/5));
  EXPECT_EQ(Rest(merger), "1.1a 1.2b 1.1c ");
}

TEST_F(LogMergerTest, SkipsATrialWithoutALog) {
  LogMerger merger;
  merger.Add(Source(1));
  EXPECT_FALSE(merger.Next().has_value());
}

TEST_F(LogMergerTest, ContinuesWithNewRecords) {
  Append(1, 10, "a");
  LogMerger merger;
  LogSource source = Source(1);
  source.grows = true;
  merger.Add(source);
  EXPECT_EQ(Rest(merger), "1.1a ");
  Append(1, 20, "b");
  EXPECT_EQ(Rest(merger), "");
  merger.Refresh();
  EXPECT_EQ(Rest(merger), "1.1b ");
}

TEST_F(LogMergerTest, StartsNearTheEndForATail) {
  Append(1, 10, "a");
  Append(1, 20, "b");
  Append(1, 30, "c");
  LogMerger merger(/*tail=*/1);
  merger.Add(Source(1));
  EXPECT_EQ(Rest(merger), "1.1c ");
}

}  // namespace

}  // namespace dtrain

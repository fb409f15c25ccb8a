#include "engine/config/slurm_config.h"

#include <chrono>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(SlurmTimeTest, ReadsEachFormatOfSlurm) {
  EXPECT_EQ(ParseSlurmTime("90"), minutes(90));
  EXPECT_EQ(ParseSlurmTime("30:00"), minutes(30));
  EXPECT_EQ(ParseSlurmTime("4:00:00"), hours(4));
  EXPECT_EQ(ParseSlurmTime("2-0"), hours(48));
  EXPECT_EQ(ParseSlurmTime("1-12:30"), hours(36) + minutes(30));
  EXPECT_EQ(ParseSlurmTime("1-00:00:60"), hours(24) + minutes(1));
}

TEST(SlurmTimeTest, RoundsUpToAMinuteAsSlurmDoes) {
  EXPECT_EQ(ParseSlurmTime("1:01"), minutes(2));
  EXPECT_EQ(ParseSlurmTime("0:60"), minutes(1));
}

TEST(SlurmTimeTest, RefusesOtherTexts) {
  EXPECT_FALSE(ParseSlurmTime(""));
  EXPECT_FALSE(ParseSlurmTime("4h"));
  EXPECT_FALSE(ParseSlurmTime("4:00:"));
  EXPECT_FALSE(ParseSlurmTime("1:2:3:4"));
  EXPECT_FALSE(ParseSlurmTime("-5"));
  EXPECT_FALSE(ParseSlurmTime("1-"));
  EXPECT_FALSE(ParseSlurmTime("1-2-3"));
  EXPECT_FALSE(ParseSlurmTime("1:1-2"));
  EXPECT_FALSE(ParseSlurmTime(" 5"));
  EXPECT_FALSE(ParseSlurmTime("UNLIMITED"));
  EXPECT_FALSE(ParseSlurmTime("99999999999"));
}

TEST(SlurmTimeTest, RefusesLessThanAMinuteAndMoreThanAYear) {
  EXPECT_FALSE(ParseSlurmTime("0"));
  EXPECT_FALSE(ParseSlurmTime("0:59"));
  EXPECT_TRUE(ParseSlurmTime("366-0"));
  EXPECT_FALSE(ParseSlurmTime("366-0:00:01"));
}

TEST(SlurmTimeTest, TheTimeLeftOfAJobIsExact) {
  EXPECT_EQ(ReadSlurmTime("59:58"), minutes(59) + seconds(58));
  EXPECT_EQ(ReadSlurmTime("0:00"), seconds(0));
  EXPECT_FALSE(ReadSlurmTime("INVALID"));
}

TEST(SlurmTimeTest, IsWrittenAsSbatchReadsIt) {
  EXPECT_EQ(FormatSlurmTime(hours(4)), "04:00:00");
  EXPECT_EQ(FormatSlurmTime(hours(36) + minutes(5)), "1-12:05:00");
  EXPECT_EQ(ParseSlurmTime(FormatSlurmTime(hours(36))), hours(36));
}

TEST(ReservedOptionTest, NamesWhatDtrainSetsItself) {
  EXPECT_EQ(ReservedOption("--partition=gpu"), "--partition");
  EXPECT_EQ(ReservedOption("--time"), "--time");
  EXPECT_EQ(ReservedOption("-pgpu"), "--partition");
  EXPECT_EQ(ReservedOption("-N"), "--nodes");
  EXPECT_EQ(ReservedOption("--no-requeue"), "--no-requeue");
}

TEST(ReservedOptionTest, IsEmptyForOthers) {
  EXPECT_EQ(ReservedOption("--exclusive"), "");
  EXPECT_EQ(ReservedOption("--times=1"), "");
  EXPECT_EQ(ReservedOption("-w"), "");
  EXPECT_EQ(ReservedOption("-"), "");
  EXPECT_EQ(ReservedOption(""), "");
}

}  // namespace
}  // namespace dtrain

#include "engine/report/log_merger.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace dtrain {
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

TEST_F(LogMergerTest, GivesRecordsByTime) {
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

TEST_F(LogMergerTest, HasNothingOfATrialThatWroteNothing) {
  LogMerger merger;
  merger.Add(Source(1));
  EXPECT_FALSE(merger.Next().has_value());
}

TEST_F(LogMergerTest, GoesOnWithWhatCameSince) {
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

TEST_F(LogMergerTest, BeginsNearTheEndForATail) {
  Append(1, 10, "a");
  Append(1, 20, "b");
  Append(1, 30, "c");
  LogMerger merger(/*tail=*/1);
  merger.Add(Source(1));
  EXPECT_EQ(Rest(merger), "1.1c ");
}

}  // namespace
}  // namespace dtrain

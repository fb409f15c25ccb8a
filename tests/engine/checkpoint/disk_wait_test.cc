#include "engine/checkpoint/disk_wait.h"

#include <chrono>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A disk that is full until a test frees space.
class DiskWaitTest : public ::testing::Test {
 protected:
  FreeSpace free_{.bytes = 0, .inodes = 0};
  Duration now_{seconds(100)};
  DiskWait wait_{"/disk",
                 {.now = [] { return Timestamp(0); },
                  .monotonic = [this] { return now_; }},
                 [this](const std::string&) { return free_; }};
};

TEST_F(DiskWaitTest, TimesOutAfterAMinute) {
  wait_.Begin();
  now_ += milliseconds(59'900);
  EXPECT_FALSE(wait_.IsOver());
  now_ += milliseconds(100);
  EXPECT_TRUE(wait_.IsOver());
}

TEST_F(DiskWaitTest, EndsWhenThereAreMoreBytes) {
  wait_.Begin();
  free_.bytes = 64 << 10;
  EXPECT_FALSE(wait_.IsOver());  // not for each line of a log that goes
  now_ += seconds(1);
  EXPECT_TRUE(wait_.IsOver());
}

// What a deleted line of a log frees is no reason to write a checkpoint again.
TEST_F(DiskWaitTest, GoesOnWithALittleMore) {
  wait_.Begin();
  now_ += seconds(1);
  free_ = {.bytes = (64 << 10) - 1, .inodes = 3};
  EXPECT_FALSE(wait_.IsOver());
  ++free_.bytes;
  EXPECT_TRUE(wait_.IsOver());
}

TEST_F(DiskWaitTest, EndsWhenThereAreMoreInodes) {
  wait_.Begin();
  free_.inodes = 4;
  now_ += seconds(1);
  EXPECT_TRUE(wait_.IsOver());
}

TEST_F(DiskWaitTest, DetectsSpaceFreedAfterTheWriteFailed) {
  free_.inodes = 2000;
  wait_.Begin();
  now_ += seconds(1);
  EXPECT_TRUE(wait_.IsOver());
}

TEST_F(DiskWaitTest, DetectsSpaceThatOthersGaveBack) {
  free_ = {.bytes = 100 << 20, .inodes = 1000};
  DiskWait wait("/disk",
                {.now = [] { return Timestamp(0); },
                 .monotonic = [this] { return now_; }},
                [this](const std::string&) { return free_; });
  free_.bytes = 0;
  wait.Begin();
  now_ += seconds(1);
  EXPECT_FALSE(wait.IsOver());
  free_.bytes = 1 << 20;
  EXPECT_TRUE(wait.IsOver());
}

TEST_F(DiskWaitTest, CountsTheMinuteFromItsBeginning) {
  now_ += seconds(300);  // that the write took
  wait_.Begin();
  now_ += seconds(1);
  EXPECT_FALSE(wait_.IsOver());
}

TEST_F(DiskWaitTest, IgnoresUnknownAmounts) {
  free_ = {};
  DiskWait wait("/disk",
                {.now = [] { return Timestamp(0); },
                 .monotonic = [this] { return now_; }},
                [this](const std::string&) { return free_; });
  free_ = {.bytes = 1 << 20, .inodes = 10};
  wait.Begin();
  now_ += seconds(1);
  EXPECT_FALSE(wait.IsOver());
}

}  // namespace
}  // namespace dtrain

#include "engine/os/poller.h"

#include <chrono>

#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/os/spawn.h"

namespace dtrain {
namespace {

constexpr Duration kNow{0};
constexpr Duration kPollLimit = std::chrono::minutes(5);
constexpr std::uint64_t kToken = 7;

class PollerTest : public testing::Test {
 protected:
  PollerTest() { poller_.Add(pipe_.reading.get(), kToken); }

  void Write() { ASSERT_EQ(::write(pipe_.writing.get(), "x", 1), 1); }

  Pipe pipe_ = MakePipe();
  Poller poller_;
};

TEST_F(PollerTest, ReturnsTheTokenOfAReadableDescriptor) {
  EXPECT_TRUE(poller_.Wait(kNow).empty());
  Write();
  const auto ready = poller_.Wait(kPollLimit);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].token, kToken);
  EXPECT_TRUE(ready[0].readable);
  EXPECT_FALSE(ready[0].writable);
}

TEST_F(PollerTest, EndOfAStreamIsReadable) {
  pipe_.writing.reset();
  const auto ready = poller_.Wait(kPollLimit);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_TRUE(ready[0].readable);
}

TEST_F(PollerTest, WatchesForWritingOnRequestOnly) {
  poller_.Add(pipe_.writing.get(), kToken + 1);
  EXPECT_TRUE(poller_.Wait(kNow).empty());
  poller_.WatchForWrite(pipe_.writing.get(), kToken + 1, true);
  const auto ready = poller_.Wait(kPollLimit);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].token, kToken + 1);
  EXPECT_TRUE(ready[0].writable);
  poller_.WatchForWrite(pipe_.writing.get(), kToken + 1, false);
  EXPECT_TRUE(poller_.Wait(kNow).empty());
}

TEST_F(PollerTest, ForgetsARemovedDescriptor) {
  Write();
  poller_.Remove(pipe_.reading.get());
  EXPECT_TRUE(poller_.Wait(kNow).empty());
  poller_.Remove(pipe_.reading.get());  // has no effect
}

TEST_F(PollerTest, IsReadableItselfWhileADescriptorIsReady) {
  Poller outer;
  outer.Add(poller_.fd(), kToken);
  EXPECT_TRUE(outer.Wait(kNow).empty());
  Write();
  EXPECT_EQ(outer.Wait(kPollLimit).size(), 1U);
}

}  // namespace
}  // namespace dtrain

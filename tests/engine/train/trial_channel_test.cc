#include "engine/train/trial_channel.h"

#include <csignal>
#include <future>
#include <string>

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;

class TrialChannelTest : public testing::Test {
 protected:
  TrialChannelTest() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    runner_.reset(ends[0]);
    trial_.reset(ends[1]);
    reader_.emplace(runner_.get());
  }

  void Send(const RunnerMessage& message) {
    ASSERT_TRUE(WriteAll(runner_.get(), Encode(message)));
  }

  TrialMessage Hear() {
    auto line = reader_->Next();
    while (!line && reader_->Fill()) line = reader_->Next();
    return DecodeTrialMessage(line.value_or(""));
  }

  UniqueFd runner_;
  UniqueFd trial_;
  std::optional<LineReader> reader_;
};

TEST_F(TrialChannelTest, ReadsTheSpecificationAndLaterMessages) {
  TrialSpec spec{.id = {3, 7}, .entrypoint = "builtin:FaultTrial"};
  ASSERT_TRUE(WriteAll(runner_.get(), Encode(spec)));
  Send(RunOperation{{100}});
  TrialChannel channel(std::move(trial_));
  EXPECT_EQ(channel.ReadSpec().id, (TrialId{3, 7}));
  channel.Start();
  EXPECT_EQ(std::get<RunOperation>(channel.Next()).until, Length{100});
}

TEST_F(TrialChannelTest, RefusesAnInvalidSpecification) {
  ASSERT_TRUE(WriteAll(runner_.get(), "hello\n"));
  TrialChannel channel(std::move(trial_));
  EXPECT_THROW(channel.ReadSpec(), Error);
}

TEST_F(TrialChannelTest, NumbersAndKeepsReportsUntilAcknowledged) {
  TrialChannel channel(std::move(trial_));
  channel.Start();
  channel.Send(Ready{});
  channel.Send(TrainingReport{.batches = 100, .metrics = {{"loss", 1}}});
  channel.Send(ValidationReport{.batches = 100, .metrics = {{"loss", 1}}});
  EXPECT_TRUE(std::holds_alternative<Ready>(Hear()));
  EXPECT_EQ(std::get<TrainingReport>(Hear()).seq, 1);
  EXPECT_EQ(std::get<ValidationReport>(Hear()).seq, 2);
  EXPECT_EQ(channel.Unacknowledged().size(), 2u);
  Send(Acknowledge{2});
  channel.Drain();
  EXPECT_TRUE(channel.Unacknowledged().empty());
}

TEST_F(TrialChannelTest, SendWaitsIfTooManyReportsAreUnacknowledged) {
  TrialChannel channel(std::move(trial_), {.values = 4});
  channel.Start();
  const MetricValues two = {{"a", 1}, {"b", 2}};
  channel.Send(TrainingReport{.batches = 1, .metrics = two});
  channel.Send(TrainingReport{.batches = 2, .metrics = two});
  auto third = std::async(std::launch::async, [&] {
    channel.Send(TrainingReport{.batches = 3, .metrics = two});
  });
  EXPECT_EQ(third.wait_for(milliseconds(50)), std::future_status::timeout);
  Send(Acknowledge{1});
  third.get();
  EXPECT_EQ(channel.Unacknowledged().size(), 2u);
}

TEST_F(TrialChannelTest, ReportsProgressWhileItWaits) {
  TrialChannel channel(std::move(trial_), {.messages = 1});
  channel.Start();
  channel.Send(Progress{.batches = 1, .total = 10});
  channel.Send(TrainingReport{.batches = 1});
  auto waiting = std::async(
      std::launch::async, [&] { channel.Send(TrainingReport{.batches = 2}); });
  EXPECT_TRUE(std::holds_alternative<Progress>(Hear()));
  EXPECT_TRUE(std::holds_alternative<TrainingReport>(Hear()));
  EXPECT_TRUE(std::holds_alternative<Progress>(Hear()));
  Send(Acknowledge{1});
  waiting.get();
}

TEST_F(TrialChannelTest, StopWakesNextAndComesFirst) {
  TrialChannel channel(std::move(trial_));
  channel.Start();
  auto next = std::async(std::launch::async, [&] { return channel.Next(); });
  Send(StopTrial{});
  EXPECT_TRUE(std::holds_alternative<StopTrial>(next.get()));
  EXPECT_TRUE(channel.stop_requested());
}

TEST_F(TrialChannelTest, PollsWithoutWaiting) {
  TrialChannel channel(std::move(trial_));
  channel.Start();
  EXPECT_FALSE(channel.TryNext().has_value());
  Send(RunOperation{{100}});
  pollfd news{.fd = channel.news(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&news, 1, /*milliseconds=*/-1), 1);
  const auto order = channel.TryNext();
  ASSERT_TRUE(order && std::holds_alternative<RunOperation>(*order));
  EXPECT_EQ(::poll(&news, 1, /*milliseconds=*/0), 0);
  Send(StopTrial{});
  ASSERT_EQ(::poll(&news, 1, /*milliseconds=*/-1), 1);
  EXPECT_TRUE(std::holds_alternative<StopTrial>(channel.TryNext().value()));
}

TEST_F(TrialChannelTest, SigtermIsAStop) {
  TrialChannel channel(std::move(trial_));
  channel.Start();
  ::kill(::getpid(), SIGTERM);
  EXPECT_TRUE(std::holds_alternative<StopTrial>(channel.Next()));
}

TEST_F(TrialChannelTest, ClosedSocketIsAStopAndKeepsReports) {
  TrialChannel channel(std::move(trial_),
                       {.messages = 1, .orphan_life = milliseconds(60'000)});
  channel.Start();
  reader_.reset();
  runner_.reset();
  EXPECT_TRUE(std::holds_alternative<StopTrial>(channel.Next()));
  channel.Send(TrainingReport{.batches = 1});
  channel.Send(TrainingReport{.batches = 2});
  channel.Drain();
  EXPECT_EQ(channel.Unacknowledged().size(), 2u);
}

TEST_F(TrialChannelTest, OrphanExits) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    TrialChannel channel(std::move(trial_), {.orphan_life = milliseconds(20)});
    channel.Start();
    runner_.reset();
    while (true) ::pause();
  }
  trial_.reset();
  reader_.reset();
  runner_.reset();
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 75);
}

TEST_F(TrialChannelTest, InvalidMessageFromTheRunnerIsAStop) {
  TrialChannel channel(std::move(trial_),
                       {.orphan_life = milliseconds(60'000)});
  channel.Start();
  ASSERT_TRUE(WriteAll(runner_.get(), "{\"type\":\"sing\"}\n"));
  EXPECT_TRUE(std::holds_alternative<StopTrial>(channel.Next()));
}

}  // namespace
}  // namespace dtrain

#include "engine/process/launched_trial.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "engine/base/error.h"
#include "engine/process/process_table.h"

namespace dtrain {
namespace {

constexpr Duration kAfterTerm = std::chrono::seconds(5);

}  // namespace

LaunchedTrial::LaunchedTrial(TrialSpec spec, SlotLease lease,
                             std::filesystem::path log, Clock clock,
                             Poller& poller, std::uint64_t token)
    : id_(spec.id),
      lease_(std::move(lease)),
      clock_(clock),
      token_(token),
      output_(std::move(log), clock),
      rank_(spec, output_, clock, poller, token) {}

std::vector<int> LaunchedTrial::HandedFds() const {
  std::vector<int> fds = rank_.HandedFds();
  for (const UniqueFd& lock : lease_.locks) fds.push_back(lock.get());
  return fds;
}

TrialStarted LaunchedTrial::OnForked(std::int64_t pid,
                                     const std::string& store) {
  started_at_ = clock_.monotonic();
  rank_.OnForked(pid);
  DescribeHolder(lease_, id_, pid, store);
  Write({});
  if (stop_ == StopStep::kKilled) rank_.Signal(SIGKILL);
  const auto process = ReadProcess(pid);
  return {.trial = id_,
          .pid = pid,
          .start_ticks = process ? process->start_ticks : 0,
          .slots = lease_.slots};
}

void LaunchedTrial::Send(const RunnerMessage& message) {
  Write(Encode(message));
}

void LaunchedTrial::Write(const std::string& lines) {
  try {
    rank_.Write(lines);
  } catch (const Error& error) {
    Punish(error.what());
  }
}

void LaunchedTrial::FailToStart(const std::string& reason) {
  not_started_ = "cannot start trial " + ToString(id_) + ": " + reason;
  output_.Note(not_started_);
}

void LaunchedTrial::RequestStop(Duration grace) {
  if (stop_ != StopStep::kNone) return;
  stop_ = StopStep::kAsked;
  next_stop_at_ = clock_.monotonic() + grace;
  Send(StopTrial{});
}

void LaunchedTrial::Kill() {
  if (!dead() && !punished_) killed_by_us_ = true;
  stop_ = StopStep::kKilled;
  next_stop_at_.reset();
  rank_.Signal(SIGKILL);
}

void LaunchedTrial::Punish(const std::string& reason) {
  if (punished_ || dead()) return;
  punished_ = true;
  output_.Note("trial " + ToString(id_) + " is killed: " + reason);
  rank_.CloseControl();
  stop_ = StopStep::kKilled;
  next_stop_at_.reset();
  rank_.Signal(SIGKILL);
}

void LaunchedTrial::OnReady(const Poller::Ready& ready,
                            std::deque<LaunchEvent>& events) {
  switch (static_cast<RankProcess::Channel>(ready.token - token_)) {
    case RankProcess::kStdout:
      return rank_.DrainOutput(RankOutput::kStandardOutput);
    case RankProcess::kStderr:
      return rank_.DrainOutput(RankOutput::kStandardError);
    case RankProcess::kControl:
      if (ready.writable) rank_.FlushControl();
      if (ready.readable) ReadMessages(events);
      return;
    case RankProcess::kExit:
      return OnExit();
  }
}

void LaunchedTrial::ReadMessages(std::deque<LaunchEvent>& events) {
  try {
    const bool more = rank_.FillControl();
    while (std::optional<TrialMessage> message = rank_.NextMessage()) {
      events.push_back(TrialSaid{id_, *std::move(message)});
    }
    if (!more) rank_.CloseControl();
  } catch (const Error& error) {
    Punish(error.what());
    rank_.CloseControl();
  }
}

void LaunchedTrial::OnExit() {
  if (!rank_.Reap()) return;
  const Duration lived = clock_.monotonic() - started_at_;
  seconds_ = std::chrono::duration<double>(lived).count();
  next_stop_at_.reset();
}

void LaunchedTrial::OnTime() {
  const Duration now = clock_.monotonic();
  if (const auto flush_at = output_.flush_at(); flush_at && *flush_at <= now) {
    output_.Flush();
  }
  if (!rank_.living() || !next_stop_at_ || *next_stop_at_ > now) return;
  killed_by_us_ = true;
  if (stop_ == StopStep::kAsked) {
    stop_ = StopStep::kTerminated;
    next_stop_at_ = now + kAfterTerm;
    rank_.Signal(SIGTERM);
  } else {
    Kill();
  }
}

std::optional<Duration> LaunchedTrial::Deadline() const {
  std::optional<Duration> deadline = output_.flush_at();
  const auto add = [&deadline](std::optional<Duration> time) {
    if (time) deadline = std::min(deadline.value_or(*time), *time);
  };
  if (rank_.living()) add(next_stop_at_);
  add(rank_.Deadline());
  return deadline;
}

TrialExited LaunchedTrial::Result(bool out_of_memory) {
  rank_.CloseOutput();
  output_.Flush();
  return {.trial = id_,
          .exit_code = not_started_.empty() ? rank_.exit_code() : 1,
          .signal = rank_.signal(),
          .killed_by_us = killed_by_us_,
          .out_of_memory = out_of_memory && rank_.signal() == SIGKILL &&
                           !killed_by_us_ && !punished_,
          .not_started = not_started_,
          .seconds = seconds_,
          .last_lines = output_.last_lines()};
}

}  // namespace dtrain

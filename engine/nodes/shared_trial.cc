#include "engine/nodes/shared_trial.h"

#include <algorithm>
#include <utility>

namespace dtrain {
namespace {

// Who waits longer for slots says so.
constexpr Duration kSilentWait = std::chrono::seconds(10);

bool Failed(const PartEnded& ended) {
  return ended.exited.exit_code != 0 && !ended.exited.killed_by_us;
}

}  // namespace

SharedTrial::SharedTrial(TrialSpec spec, const std::vector<int>& parts,
                         TrialOutput output, Clock clock)
    : spec_(std::move(spec)),
      clock_(std::move(clock)),
      output_(std::move(output)),
      parts_(parts.size()),
      to_begin_(parts.begin(), parts.end()) {}

std::optional<int> SharedTrial::TakeNext() {
  if (to_begin_.empty()) return std::nullopt;
  begun_ = to_begin_.front();
  to_begin_.pop_front();
  wait_told_ = clock_.monotonic() + kSilentWait;
  return begun_;
}

bool SharedTrial::begins_later(int part) const {
  return std::ranges::find(to_begin_, part) != to_begin_.end();
}

std::optional<int> SharedTrial::TakeLongWait() {
  if (!wait_told_ || clock_.monotonic() < *wait_told_) return std::nullopt;
  wait_told_.reset();
  return begun_;
}

void SharedTrial::StopAsked() {
  stop_asked_ = true;
  EndUnbegun(/*killed=*/false);
}

void SharedTrial::KillAsked() {
  kill_asked_ = true;
  EndUnbegun(/*killed=*/true);
}

void SharedTrial::EndUnbegun(bool killed) {
  wait_told_.reset();
  for (const int part : std::exchange(to_begin_, {})) {
    OnEnded(part, {.exited = {.trial = id(), .killed_by_us = killed}});
  }
}

TrialSpec SharedTrial::PartOf(int part, const RankAddress& address) const {
  TrialSpec spec = spec_;
  spec.rank = part * address.ranks_here;
  spec.world_size = static_cast<int>(parts_.size()) * address.ranks_here;
  spec.address = address;
  return spec;
}

void SharedTrial::OnFirstStarted(TrialStarted started,
                                 std::deque<LaunchEvent>& events) {
  first_ = std::move(started);
  OnStarted(0, events);
}

void SharedTrial::OnStarted(int part, std::deque<LaunchEvent>& events) {
  At(part).started = true;
  if (part == begun_) wait_told_.reset();
  if (std::ranges::all_of(parts_, &Part::started)) Release(events);
}

void SharedTrial::OnSaid(TrialMessage message,
                         std::deque<LaunchEvent>& events) {
  if (released_) {
    events.push_back(TrialSaid{id(), std::move(message)});
  } else {
    held_.push_back(std::move(message));
  }
}

void SharedTrial::Release(std::deque<LaunchEvent>& events) {
  if (std::exchange(released_, true)) return;
  events.push_back(*first_);
  for (TrialMessage& message : std::exchange(held_, {})) {
    events.push_back(TrialSaid{id(), std::move(message)});
  }
}

void SharedTrial::OnEnded(int part, PartEnded ended) {
  if (At(part).ended) return;
  const bool failed = Failed(ended);
  At(part).late_word = std::ranges::any_of(
      order_, [this](int other) { return Failed(*At(other).ended); });
  const Duration until = clock_.monotonic() + OthersLiveOn(failed);
  others_until_ = std::min(others_until_.value_or(until), until);
  At(part).ended = std::move(ended);
  order_.push_back(part);
  EndUnbegun(/*killed=*/true);
}

void SharedTrial::OnLost(int part, const std::string& why) {
  if (At(part).ended) return;
  const int rank = FirstRankOf(part);
  output_.Append({.time = clock_.now(),
                  .rank = rank,
                  .from_stderr = true,
                  .level = LogLevel::kError,
                  .text = "dtrain: " + why});
  // Without a word, as one that crashes: the same may happen again, and another
  // start mends it.
  OnEnded(
      part,
      {.exited = {
           .trial = id(), .exit_code = 1, .rank = rank, .last_lines = {why}}});
}

bool SharedTrial::TakeKillDue() {
  const bool due = others_until_ && !others_killed_ && !ended() &&
                   *others_until_ <= clock_.monotonic();
  if (due) others_killed_ = true;
  return due;
}

void SharedTrial::OnTime() {
  const auto flush_at = output_.flush_at();
  if (flush_at && *flush_at <= clock_.monotonic()) output_.Flush();
}

std::optional<Duration> SharedTrial::Deadline() const {
  std::optional<Duration> deadline = output_.flush_at();
  const auto add = [&deadline](const Duration& time) {
    deadline = std::min(deadline.value_or(time), time);
  };
  if (others_until_ && !others_killed_ && !ended()) add(*others_until_);
  if (wait_told_) add(*wait_told_);
  return deadline;
}

// A part that has ended before it had a process names none.
RankEnd SharedTrial::EndOf(int part) const {
  const TrialExited& exited = At(part).ended->exited;
  return {.rank = exited.rank < 0 ? FirstRankOf(part) : exited.rank,
          .exit_code = exited.exit_code,
          .signal = exited.signal,
          .ended_by_us = exited.killed_by_us,
          .word = At(part).ended->word,
          .late_word = At(part).late_word};
}

std::string SharedTrial::NotStarted() const {
  for (const Part& part : parts_) {
    const std::string& why = part.ended->exited.not_started;
    if (!why.empty()) return why;
  }
  return "";
}

void SharedTrial::TellEnd(std::deque<LaunchEvent>& events) {
  output_.Flush();
  std::vector<RankEnd> ends;
  for (const int part : order_) ends.push_back(EndOf(part));
  const TrialEnd end = JudgeEnd(ends);
  const auto counts = std::ranges::find(ends, end.rank.rank, &RankEnd::rank);
  const int culprit = order_[static_cast<std::size_t>(counts - ends.begin())];
  const TrialExited& first = At(0).ended->exited;
  TrialExited exited = At(culprit).ended->exited;
  exited.rank = end.rank.rank;
  exited.seconds = first.seconds;
  exited.killed_by_us = kill_asked_ || (stop_asked_ && first.killed_by_us);
  exited.not_started = NotStarted();
  if (exited.not_started.empty()) {
    if (first_) Release(events);
    if (end.word) events.push_back(TrialSaid{id(), *end.word});
  }
  events.push_back(std::move(exited));
}

}  // namespace dtrain

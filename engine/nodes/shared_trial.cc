// One trial whose ranks run on several machines (shards), seen as one process
// by the experiment.
//
// Shards start one after another in the order of `queue_`: the next one starts
// when the caller pops it. The messages of rank 0 are held until all shards
// have started; only then the experiment sees the start, with the slots of all,
// and the messages behind it. The end is reported when every shard has ended,
// once.
//
// After the first shard has ended, the others get a grace to end by themselves
// (PeerExitGrace), and are then killed; shards that are still queued end at
// once. CombineEnds chooses the rank that counts as the cause, by the order in
// which the shards ended: a rank that ended after another had failed is marked
// as late, since it probably failed because of that one.

#include "engine/nodes/shared_trial.h"

#include <algorithm>
#include <utility>

#include "engine/process/trial_end.h"

namespace dtrain {
namespace {

// Longer waits for slots are reported.
constexpr Duration kSilentWait = std::chrono::seconds(10);

bool Failed(const ShardEnded& ended) {
  return ended.exited.exit_code != 0 && !ended.exited.killed_by_us;
}

}  // namespace

SharedTrial::SharedTrial(TrialSpec spec, std::vector<ShardPlace> places,
                         const std::vector<int>& order, TrialOutput output,
                         Clock clock)
    : spec_(std::move(spec)),
      clock_(std::move(clock)),
      output_(std::move(output)),
      places_(std::move(places)),
      shards_(places_.size()),
      queue_(order.begin(), order.end()) {}

std::optional<int> SharedTrial::ShardOn(int node) const {
  const auto found = std::ranges::find(places_, node, &ShardPlace::node);
  if (found == places_.end()) return std::nullopt;
  return static_cast<int>(found - places_.begin());
}

int SharedTrial::FirstRank(int shard) const {
  std::int64_t rank = 0;
  for (int i = 0; i < shard; ++i) {
    rank += places_[static_cast<std::size_t>(i)].slots;
  }
  return static_cast<int>(rank);
}

std::optional<int> SharedTrial::PopNext() {
  if (queue_.empty()) return std::nullopt;
  last_started_ = queue_.front();
  queue_.pop_front();
  long_wait_at_ = clock_.monotonic() + kSilentWait;
  return last_started_;
}

bool SharedTrial::is_queued(int shard) const {
  return std::ranges::find(queue_, shard) != queue_.end();
}

std::optional<int> SharedTrial::PopLongWait() {
  if (!long_wait_at_ || clock_.monotonic() < *long_wait_at_)
    return std::nullopt;
  long_wait_at_.reset();
  return last_started_;
}

void SharedTrial::OnStopRequested() {
  stop_requested_ = true;
  EndQueued(/*killed=*/false);
}

void SharedTrial::OnKillRequested() {
  kill_requested_ = true;
  EndQueued(/*killed=*/true);
}

void SharedTrial::OnPreempted() {
  preempted_ = true;
  EndQueued(/*killed=*/true);
}

void SharedTrial::EndQueued(bool killed) {
  long_wait_at_.reset();
  for (const int shard : std::exchange(queue_, {})) {
    OnEnded(shard,
            {.exited = TrialExited{.trial = id(), .killed_by_us = killed}});
  }
}

TrialSpec SharedTrial::ShardSpec(int shard) const {
  TrialSpec spec = spec_;
  if (is_single()) return spec;
  const ShardPlace& place = places_[static_cast<std::size_t>(shard)];
  spec.rank = FirstRank(shard);
  spec.world_size = FirstRank(static_cast<int>(places_.size()));
  spec.address = address_;
  spec.address->ranks_here = static_cast<int>(place.slots);
  return spec;
}

void SharedTrial::OnStarted(int shard, TrialStarted started,
                            std::deque<LaunchEvent>& events) {
  At(shard).started = std::move(started);
  if (shard == last_started_) long_wait_at_.reset();
  if (std::ranges::all_of(shards_, &Shard::has_started)) Release(events);
}

void SharedTrial::OnMessage(TrialMessage message,
                            std::deque<LaunchEvent>& events) {
  if (released_) {
    events.push_back(MessageReceived{id(), std::move(message)});
  } else {
    held_messages_.push_back(std::move(message));
  }
}

void SharedTrial::Release(std::deque<LaunchEvent>& events) {
  if (std::exchange(released_, true)) return;
  TrialStarted all = *At(0).started;
  all.slots.clear();
  for (const Shard& shard : shards_) {
    if (!shard.started) continue;
    const std::vector<std::string>& slots = shard.started->slots;
    all.slots.insert(all.slots.end(), slots.begin(), slots.end());
  }
  events.push_back(std::move(all));
  for (TrialMessage& message : std::exchange(held_messages_, {})) {
    events.push_back(MessageReceived{id(), std::move(message)});
  }
}

void SharedTrial::OnFinished(int shard, Finished finished) {
  At(shard).finished = std::move(finished);
}

void SharedTrial::OnEnded(int shard, ShardEnded ended) {
  if (At(shard).ended) return;
  if (At(shard).finished) ended.finished = std::move(At(shard).finished);
  const bool failed = Failed(ended);
  At(shard).late_message = std::ranges::any_of(
      order_, [this](int other) { return Failed(*At(other).ended); });
  const Duration until = clock_.monotonic() + PeerExitGrace(failed);
  kill_at_ = std::min(kill_at_.value_or(until), until);
  At(shard).ended = std::move(ended);
  order_.push_back(shard);
  EndQueued(/*killed=*/true);
}

void SharedTrial::OnLost(int shard, const std::string& why) {
  if (At(shard).ended) return;
  const int rank = FirstRank(shard);
  output_.Append({.time = clock_.now(),
                  .rank = rank,
                  .from_stderr = true,
                  .level = LogLevel::kError,
                  .text = "dtrain: " + why});
  // Without a final message, like a crash, so that the trial is restarted.
  OnEnded(shard, {.exited = TrialExited{.trial = id(),
                                        .exit_code = 1,
                                        .rank = is_single() ? -1 : rank,
                                        .lost = why,
                                        .last_lines = {why}}});
}

bool SharedTrial::PopKillDue() {
  const bool due =
      kill_at_ && !kill_sent_ && !ended() && *kill_at_ <= clock_.monotonic();
  if (due) kill_sent_ = true;
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
  if (kill_at_ && !kill_sent_ && !ended()) add(*kill_at_);
  if (long_wait_at_) add(*long_wait_at_);
  return deadline;
}

std::string SharedTrial::NotStarted() const {
  for (const Shard& shard : shards_) {
    const std::string& why = shard.ended->exited.not_started;
    if (!why.empty()) return why;
  }
  return "";
}

void SharedTrial::EmitEnd(std::deque<LaunchEvent>& events) {
  output_.Flush();
  std::vector<RankEnd> ends;
  for (const int shard : order_) {
    const ShardEnded& ended = *At(shard).ended;
    // A shard that ended before it had a process names no rank.
    ends.push_back(
        {.rank = ended.exited.rank < 0 ? FirstRank(shard) : ended.exited.rank,
         .exit_code = ended.exited.exit_code,
         .signal = ended.exited.signal,
         .ended_by_us = ended.exited.killed_by_us,
         .message = ended.finished,
         .late_message = At(shard).late_message});
  }
  const TrialEnd end = CombineEnds(ends);
  const auto counts = std::ranges::find(ends, end.rank.rank, &RankEnd::rank);
  const int culprit = order_[static_cast<std::size_t>(counts - ends.begin())];
  const TrialExited& first = At(0).ended->exited;
  TrialExited exited = At(culprit).ended->exited;
  if (!is_single()) exited.rank = end.rank.rank;
  exited.preempted =
      preempted_ || std::ranges::any_of(shards_, [](const Shard& shard) {
        return shard.ended->exited.preempted;
      });
  exited.seconds = first.seconds;
  exited.killed_by_us =
      kill_requested_ || (stop_requested_ && first.killed_by_us);
  exited.not_started = NotStarted();
  // The GPU that failed is often not that of the rank that counts as the cause.
  for (const int shard : order_) {
    exited.gpu_fault = At(shard).ended->exited.gpu_fault;
    if (!exited.gpu_fault) continue;
    if (is_single()) break;
    exited.gpu_fault->gpus +=
        " of the machine of rank " + std::to_string(FirstRank(shard));
    break;
  }
  if (exited.not_started.empty()) {
    if (At(0).started) Release(events);
    // Ranks miss those of a machine that was taken away too early.
    const bool misses_preempted =
        exited.preempted && end.message && ReportsLostPeer(*end.message);
    if (end.message && !misses_preempted) {
      events.push_back(MessageReceived{id(), *end.message});
    }
  }
  events.push_back(std::move(exited));
}

}  // namespace dtrain

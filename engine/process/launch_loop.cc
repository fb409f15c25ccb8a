#include "engine/process/launch_loop.h"

#include <algorithm>
#include <csignal>
#include <set>
#include <utility>

#include "engine/base/error.h"

namespace dtrain {
namespace {

// What the poller calls the descriptors that belong to no trial.
constexpr std::uint64_t kSignals = 0;
constexpr std::uint64_t kHost = 1;
constexpr std::uint64_t kWake = 3;
constexpr std::uint64_t kFirstTrial = RankProcess::kChannels;

constexpr Duration kSweepPause = std::chrono::milliseconds(2);

}  // namespace

LaunchLoop::LaunchLoop(LocalLauncherOptions options)
    : options_(std::move(options)),
      orphans_(options_.clock),
      pool_(options_.slots, options_.clock),
      forker_({.program = options_.host,
               .experiment = options_.experiment,
               .cuda = !options_.slots.gpus.empty(),
               .environment = options_.environment},
              options_.clock, poller_, kHost),
      next_token_(kFirstTrial),
      swept_host_(forker_.host_pid()) {
  poller_.Add(signals_.fd(), kSignals);
  if (options_.wake >= 0) poller_.Add(options_.wake, kWake);
}

LaunchLoop::~LaunchLoop() { Abort(); }

std::size_t LaunchLoop::FreeSlots() const {
  const std::size_t used = waiting_.size() + trials_.size();
  const auto count = static_cast<std::size_t>(options_.slots.count);
  return count > used ? count - used : 0;
}

LaunchLoop::Trials::iterator LaunchLoop::Find(TrialId trial) {
  return std::find_if(trials_.begin(), trials_.end(), [&](const auto& entry) {
    return entry.second.trial->id() == trial;
  });
}

std::deque<LaunchLoop::Waiting>::iterator LaunchLoop::FindWaiting(
    TrialId trial) {
  return std::find_if(
      waiting_.begin(), waiting_.end(),
      [&](const Waiting& waiting) { return waiting.spec.id == trial; });
}

void LaunchLoop::Start(const TrialSpec& spec, UniqueFd listener) {
  waiting_.push_back({.spec = spec, .listener = std::move(listener)});
  waiting_.back().spec.gpu_share = options_.slots.gpu_share;
  StartWaiting();
}

void LaunchLoop::Send(TrialId trial, const RunnerMessage& message) {
  if (const auto found = Find(trial); found != trials_.end()) {
    found->second.trial->Send(message);
  } else if (const auto queued = FindWaiting(trial); queued != waiting_.end()) {
    queued->messages.push_back(message);
  }
}

void LaunchLoop::RequestStop(TrialId trial) {
  if (EndWithoutProcess(trial, /*killed=*/false)) return;
  const auto found = Find(trial);
  if (found != trials_.end()) found->second.trial->RequestStop(options_.grace);
}

void LaunchLoop::Kill(TrialId trial) {
  if (EndWithoutProcess(trial, /*killed=*/true)) return;
  const auto found = Find(trial);
  if (found == trials_.end()) return;
  found->second.trial->Kill();
  if (forking_ == found->first && !forker_.in_flight()) CancelFork(found);
}

void LaunchLoop::CancelFork(Trials::iterator trial) {
  forker_.Cancel();
  forking_.reset();
  trial->second.trial->CancelFork();
  sweep_at_ = options_.clock.monotonic();  // Its other ranks may be dead.
}

bool LaunchLoop::EndWithoutProcess(TrialId trial, bool killed) {
  const auto queued = FindWaiting(trial);
  const auto found = Find(trial);
  if (queued != waiting_.end()) {
    waiting_.erase(queued);
    if (waiting_.empty()) {
      pool_.StopWaiting();
      watching_slots_ = false;
    }
  } else if (found != trials_.end() && forking_ == found->first &&
             !forker_.in_flight() && !found->second.trial->forked()) {
    forker_.Cancel();
    forking_.reset();
    trials_.erase(found);
  } else {
    return false;
  }
  events_.push_back(TrialExited{.trial = trial, .killed_by_us = killed});
  return true;
}

void LaunchLoop::Abort() {
  while (!waiting_.empty()) Kill(waiting_.front().spec.id);
  std::vector<TrialId> ids;
  for (const auto& [token, running] : trials_) {
    ids.push_back(running.trial->id());
  }
  for (const TrialId id : ids) Kill(id);
  while (!trials_.empty()) Poll(std::chrono::seconds(1));
}

LaunchEvent LaunchLoop::Wait(Duration timeout) {
  const Duration deadline = options_.clock.monotonic() + timeout;
  woken_ = false;
  if (events_.empty()) Poll(timeout);
  while (events_.empty()) {
    const Duration left = deadline - options_.clock.monotonic();
    if (left <= Duration(0) || woken_) return Idle{};
    Poll(left);
  }
  LaunchEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void LaunchLoop::Poll(Duration timeout) {
  for (const Poller::Ready& ready : poller_.Wait(TimeToNextDeadline(timeout))) {
    Dispatch(ready);
  }
  DoWhatIsDue();
}

Duration LaunchLoop::TimeToNextDeadline(Duration most) const {
  const Duration now = options_.clock.monotonic();
  Duration earliest = now + most;
  const auto add = [&earliest](std::optional<Duration> time) {
    if (time) earliest = std::min(earliest, *time);
  };
  for (const auto& [token, running] : trials_) add(running.trial->Deadline());
  add(forker_.Deadline());
  if (!forker_.in_flight()) add(sweep_at_);
  if (pool_.waiting() && !forker_.busy()) add(pool_.retry_at());
  return std::max(earliest - now, Duration(0));
}

void LaunchLoop::Dispatch(const Poller::Ready& ready) {
  if (ready.token == kSignals) {
    OnSignal();
  } else if (ready.token == kHost) {
    forker_.OnReady();
    TakeForkOutcomes();
  } else if (ready.token == kSlotsToken) {
    if (pool_.waiting()) pool_.OnWake();
  } else if (ready.token == kWake) {
    woken_ = true;
  } else {
    OnTrialReady(ready);
  }
}

void LaunchLoop::OnTrialReady(const Poller::Ready& ready) {
  auto found = trials_.upper_bound(ready.token);
  if (found == trials_.begin()) return;
  --found;
  LaunchedTrial& trial = *found->second.trial;
  if (ready.token >= found->first + trial.tokens()) return;
  const bool was_dead = trial.dead();
  trial.OnReady(ready, events_);
  if (!was_dead && trial.dead()) sweep_at_ = options_.clock.monotonic();
}

void LaunchLoop::OnSignal() {
  while (const int signal = signals_.Read()) {
    if (signal == SIGHUP && options_.ignore_hangup) continue;
    events_.push_back(Interrupted{.signal = signal});
  }
}

void LaunchLoop::DoWhatIsDue() {
  for (auto& [token, running] : trials_) running.trial->OnTime();
  forker_.OnTime();
  TakeForkOutcomes();
  // A host that died may have forked a trial and not told.
  if (std::exchange(swept_host_, forker_.host_pid()) != forker_.host_pid()) {
    sweep_at_ = options_.clock.monotonic();
  }
  SweepOrphans();
  ReportEnds();
  StartWaiting();
}

// A child that is just being forked is not known by its number yet.
void LaunchLoop::SweepOrphans() {
  if (!sweep_at_ || *sweep_at_ > options_.clock.monotonic() ||
      forker_.in_flight()) {
    return;
  }
  std::set<std::int64_t> ours = {forker_.host_pid()};
  for (const auto& [token, running] : trials_) {
    running.trial->AddPids(ours);
  }
  if (orphans_.Sweep(ours)) {
    sweep_at_.reset();
  } else {
    sweep_at_ = options_.clock.monotonic() + kSweepPause;
  }
}

void LaunchLoop::ReportEnds() {
  if (sweep_at_) return;
  std::erase_if(trials_, [this](const auto& entry) {
    const Running& running = entry.second;
    if (!running.trial->drained()) return false;
    const bool out_of_memory = oom_counter_.Read() > running.oom_kills;
    running.trial->TellEnd(out_of_memory, events_);
    return true;
  });
}

}  // namespace dtrain

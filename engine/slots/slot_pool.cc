// Takes slots of this machine for the trials of one runner (see
// slot_directory.cc for the files).
//
// A try is made under the lock of the queue, so that it takes all slots of a
// trial or none. If it fails, the runner enters the queue with a ticket and
// tries once more, since a slot may have become free between the try and the
// watch. Then it waits for inotify events of the directory, or polls with
// growing pauses. Every try closes the queue's lock file, which is an event,
// too; it is ignored, or waiting runners would wake each other without end.
//
// A GPU that is divided has a file for the whole and four for its quarters. A
// trial that shares it locks the whole one shared, and its quarters
// exclusively; one that needs all of it locks the whole one exclusively. So the
// two exclude each other without another rule.

#include "engine/slots/slot_pool.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <sys/inotify.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "engine/slots/shared_slots.h"
#include "engine/slots/slot_directory.h"

namespace dtrain {
namespace {

using nlohmann::json;

// inotify reports a closed file shortly before its lock is released, so a woken
// runner tries again soon, and then at growing intervals; the longest also
// covers lost events.
constexpr Duration kShortestPause = std::chrono::milliseconds(1);
constexpr Duration kLongestPause = std::chrono::milliseconds(500);

}  // namespace

void DescribeHolder(const SlotLease& lease, TrialId trial, std::int64_t pid,
                    const std::string& store) {
  const json holder = {
      {"pid", pid}, {"trial", ToString(trial)}, {"store", store}};
  const std::string text =
      holder.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  for (const UniqueFd& lock : lease.locks) WriteContent(lock.get(), text);
}

// The files through which all runners share the slots.
struct SlotPool::SharedState {
  explicit SharedState(const Clock& clock)
      : directory(SlotDirectory::Open()),
        queue(directory, clock),
        files(directory),
        users(SharedSlots::Open()) {}

  SlotDirectory directory;
  SlotQueue queue;
  SlotFiles files;
  SharedSlots users;
  std::vector<UniqueFd> claims;  // of the present try
};

SlotPool::SlotPool(SlotPlan plan, Clock clock)
    : plan_(std::move(plan)),
      clock_(std::move(clock)),
      shared_(std::make_unique<SharedState>(clock_)) {
  for (const Gpu& gpu : plan_.gpus) names_.push_back(GpuFile(gpu.index));
  if (!plan_.gpus.empty()) return;
  for (std::int64_t cpu = 0; cpu < plan_.cpu_tokens; ++cpu) {
    names_.push_back(CpuFile(cpu));
  }
}

SlotPool::~SlotPool() = default;

// Returns the last line of the ticket, which SlotWaits reads.
std::string SlotPool::Describe(const SlotWaiter& waiter) const {
  const double needed =
      plan_.gpu_share < 1 ? plan_.gpu_share : static_cast<double>(needed_);
  return json({{"trials", waiter.trials},
               {"store", waiter.store},
               {"needed", needed},
               {"since", waiting_since_.count()}})
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<SlotLease> SlotPool::TryTake(const SlotWaiter& waiter) {
  // The files that a trial, or a part of it, needs.
  std::int64_t needed = waiter.part.value_or(plan_.slots_per_trial);
  if (plan_.gpus.empty()) {
    needed = plan_.cpu_tokens_per_trial * needed / plan_.slots_per_trial;
  } else if (plan_.gpu_share < 1) {
    needed = ToQuarters(plan_.gpu_share);
  }
  needed_ = static_cast<std::size_t>(std::max<std::int64_t>(needed, 1));
  if (!waiting_) waiting_since_ = clock_.now();
  // Watching begins before the first try, so that no freed slot is missed.
  if (shared_->queue.waiting()) StartWatching();
  const std::optional<FileLock> lock = shared_->queue.Lock();
  std::optional<SlotLease> lease;
  if (lock) {
    lease = TryTakeLocked();
    if (!lease && !shared_->queue.waiting()) {
      shared_->queue.Wait(names_, Describe(waiter));
      StartWatching();
      lease = TryTakeLocked();
    }
    if (!lease) shared_->queue.Wait(names_, Describe(waiter));
  }
  if (lease) {
    StopWaiting();
  } else {
    waiting_ = true;
    // 1, 4, 16, 64, 256, 500 ms.
    pause_ = std::clamp(pause_ * 4, kShortestPause, kLongestPause);
    retry_at_ = clock_.monotonic() + pause_;
  }
  return lease;
}

std::optional<SlotLease> SlotPool::TryTakeLocked() {
  if (!shared_->queue.IsMyTurn(names_)) return std::nullopt;
  shared_->claims.clear();
  const std::vector<std::string> taken =
      plan_.gpu_share < 1 ? LockShare() : LockSlots();
  if (taken.empty()) return std::nullopt;
  SlotLease lease;
  lease.claims.swap(shared_->claims);
  for (const std::string& file : taken) {
    lease.locks.push_back(shared_->files.Release(file));
    if (std::ranges::find(names_, file) != names_.end()) {
      lease.slots.push_back(file);
      std::ranges::replace(lease.slots.back(), '-', ':');
    }
  }
  for (const Gpu& gpu : plan_.gpus) {
    if (std::ranges::find(taken, GpuFile(gpu.index)) != taken.end()) {
      lease.gpus.push_back(gpu);
    }
  }
  return lease;
}

// Locks the slots that a trial needs, all or none; returns their files.
std::vector<std::string> SlotPool::LockSlots() {
  std::vector<std::string> taken;
  for (const std::string& name : names_) {
    if (taken.size() == needed_) break;
    const bool is_set_aside = std::ranges::any_of(
        set_aside_, [&](std::int64_t gpu) { return name == GpuFile(gpu); });
    if (is_set_aside) continue;
    if (!shared_->files.TryLock(name)) continue;
    if (Claim(name)) {
      taken.push_back(name);
    } else {
      shared_->files.Unlock(name);
    }
  }
  if (taken.size() == needed_) return taken;
  shared_->claims.clear();
  Unlock(taken);
  return {};
}

// Tells the other users that this one has the slot, or a part of it; false if
// another user has it.
bool SlotPool::Claim(const std::string& file, std::optional<int> part) {
  auto claim = shared_->users.Take(file, part);
  if (!claim) return false;
  if (*claim) shared_->claims.push_back(*std::move(claim));
  return true;
}

// Locks a GPU's file and those of as many of its quarters as a trial needs, or
// none. Of the GPUs with enough free quarters it takes the fullest, which keeps
// whole GPUs free for trials that need one.
std::vector<std::string> SlotPool::LockShare() {
  std::vector<std::string> chosen;
  for (const Gpu& gpu : plan_.gpus) {
    if (set_aside_.contains(gpu.index)) continue;
    std::vector<std::string> locked = LockFree(gpu);
    const bool fits = locked.size() > needed_;
    if (fits && (chosen.empty() || locked.size() < chosen.size())) {
      chosen.swap(locked);
    }
    Unlock(locked);
  }
  if (chosen.empty()) return {};
  Unlock(std::span(chosen).subspan(needed_ + 1));
  chosen.resize(needed_ + 1);
  for (const std::string& quarter : std::span(chosen).subspan(1)) {
    if (Claim(chosen.front(), quarter.back() - '0')) continue;
    shared_->claims.clear();
    Unlock(chosen);
    return {};
  }
  return chosen;
}

// Locks the file of `gpu` and those of its free quarters; none if another trial
// has the whole GPU, or another user a part of it.
std::vector<std::string> SlotPool::LockFree(const Gpu& gpu) {
  std::vector<std::string> locked = {GpuFile(gpu.index)};
  if (shared_->users.FindHolder(locked.front())) return {};
  if (!shared_->files.TryLock(locked.front(), FileLock::Mode::kShared))
    return {};
  for (int quarter = 0; quarter < kQuarters; ++quarter) {
    const std::string file = QuarterFile(gpu.index, quarter);
    if (shared_->files.TryLock(file)) locked.push_back(file);
  }
  return locked;
}

std::int64_t SlotPool::trials() const {
  const bool in_parts = plan_.part_slots > 0;
  const std::int64_t planned = in_parts ? plan_.part_slots : plan_.count;
  if (set_aside_.empty()) return planned;
  const auto left = static_cast<std::int64_t>(plan_.gpus.size()) -
                    static_cast<std::int64_t>(set_aside_.size());
  std::int64_t fitting = in_parts ? left : left / plan_.slots_per_trial;
  if (plan_.gpu_share < 1) {
    fitting = left * (kQuarters / ToQuarters(plan_.gpu_share));
  }
  return std::min(planned, fitting);
}

bool SlotPool::usable() const {
  return trials() >= std::max<std::int64_t>(plan_.part_slots, 1);
}

void SlotPool::Unlock(std::span<const std::string> files) {
  for (const std::string& file : files) shared_->files.Unlock(file);
}

void SlotPool::StopWaiting() {
  shared_->queue.Leave();
  watch_.reset();
  waiting_ = false;
  pause_ = Duration(0);
}

void SlotPool::StartWatching() {
  if (watch_) return;
  watch_.reset(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  // Without a watch (their number is limited for each user) it only polls.
  if (watch_) {
    ::inotify_add_watch(watch_.get(), SlotDirectory::Path().c_str(),
                        IN_CLOSE_WRITE | IN_DELETE);
    if (shared_->users.usable()) {
      ::inotify_add_watch(watch_.get(), SharedSlots::Path().c_str(),
                          IN_CLOSE_WRITE);
    }
  }
}

void SlotPool::OnWake() {
  alignas(inotify_event) std::array<char, 4096> events;
  bool woken = false;
  ssize_t size = 0;
  while ((size = ::read(watch_.get(), events.data(), events.size())) > 0) {
    for (ssize_t at = 0; at < size;) {
      const auto* event =
          reinterpret_cast<const inotify_event*>(events.data() + at);
      const std::string_view name = event->len > 0 ? event->name : "";
      // Every try closes the queue's lock.
      woken = woken || name != "queue";
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
  if (!woken) return;
  pause_ = Duration(0);
  retry_at_ = clock_.monotonic();
}

}  // namespace dtrain

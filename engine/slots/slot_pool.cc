#include "engine/slots/slot_pool.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "engine/base/system_error.h"

namespace dtrain {
namespace {

using nlohmann::json;

// A closed file wakes the waiters a moment before its lock is gone, so they
// try again soon, and then less and less often; the last of these pauses also
// serves where the wake is lost.
constexpr Duration kShortestPause = std::chrono::milliseconds(1);
constexpr Duration kLongestPause = std::chrono::milliseconds(500);

std::vector<std::string> FileNames(const SlotPlan& plan) {
  std::vector<std::string> names;
  for (const Gpu& gpu : plan.gpus) {
    names.push_back("gpu-" + std::to_string(gpu.index));
  }
  if (!plan.gpus.empty()) return names;
  for (std::int64_t cpu = 0; cpu < plan.cpu_tokens; ++cpu) {
    names.push_back("cpu-" + std::to_string(cpu));
  }
  return names;
}

std::string SlotName(std::string file_name) {
  std::replace(file_name.begin(), file_name.end(), '-', ':');
  return file_name;
}

// A file that somebody removed is no longer the one that others lock.
bool IsRemoved(int file) {
  struct stat status {};
  return ::fstat(file, &status) != 0 || status.st_nlink == 0;
}

}  // namespace

void DescribeHolder(const SlotLease& lease, TrialId trial, std::int64_t pid,
                    const std::string& store) {
  const json holder = {
      {"pid", pid}, {"trial", ToString(trial)}, {"store", store}};
  const std::string text =
      holder.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  for (const UniqueFd& lock : lease.locks) WriteContent(lock.get(), text);
}

SlotPool::SlotPool(SlotPlan plan, Clock clock)
    : plan_(std::move(plan)),
      clock_(std::move(clock)),
      directory_(SlotDirectory::Open()),
      queue_(directory_, clock_),
      names_(FileNames(plan_)) {
  const std::int64_t needed = plan_.gpus.empty() ? plan_.cpu_tokens_per_trial
                                                 : plan_.slots_per_trial;
  needed_ = static_cast<std::size_t>(std::max<std::int64_t>(needed, 1));
}

std::optional<SlotLease> SlotPool::TryTake() {
  // Watching begins before the first look, so that no slot comes free unseen.
  if (queue_.waiting()) StartWatching();
  const std::optional<UniqueFd> lock = queue_.Lock();
  std::optional<SlotLease> lease;
  if (lock) {
    lease = TryTakeLocked();
    if (!lease && !queue_.waiting()) {
      queue_.Wait(names_);
      StartWatching();
      lease = TryTakeLocked();
    }
    if (!lease) queue_.Wait(names_);
  }
  if (lease) {
    StopWaiting();
  } else {
    RetryLater();
  }
  return lease;
}

std::optional<SlotLease> SlotPool::TryTakeLocked() {
  if (!queue_.IsMyTurn(names_)) return std::nullopt;
  std::vector<std::string> taken;
  for (const std::string& name : names_) {
    if (taken.size() == needed_) break;
    if (TryLockSlot(name)) taken.push_back(name);
  }
  if (taken.size() < needed_) {
    for (const std::string& name : taken) {
      ::flock(probes_[name].get(), LOCK_UN);
    }
    return std::nullopt;
  }
  SlotLease lease;
  for (const std::string& name : taken) {
    lease.locks.push_back(std::move(probes_.extract(name).mapped()));
    lease.slots.push_back(SlotName(name));
  }
  for (const Gpu& gpu : plan_.gpus) {
    const std::string slot = SlotName("gpu-" + std::to_string(gpu.index));
    if (std::ranges::find(lease.slots, slot) != lease.slots.end()) {
      lease.gpus.push_back(gpu);
    }
  }
  return lease;
}

// A file that is locked by another, or was ours in vain, stays open: closing it
// would wake everyone.
bool SlotPool::TryLockSlot(const std::string& name) {
  UniqueFd& file = probes_[name];
  if (file && IsRemoved(file.get())) file.reset();
  if (!file) file = directory_.OpenFile(name);
  return TryLock(file.get());
}

void SlotPool::StopWaiting() {
  queue_.Leave();
  watch_.reset();
  waiting_ = false;
  pause_ = Duration(0);
}

void SlotPool::StartWatching() {
  if (watch_) return;
  watch_.reset(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  // Without a watch (there are few of them for each user) there are the pauses.
  if (watch_) {
    ::inotify_add_watch(watch_.get(), SlotDirectory::Path().c_str(),
                        IN_CLOSE_WRITE | IN_DELETE);
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
      // The queue's lock is closed at every try.
      woken = woken || name != "queue";
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
  if (!woken) return;
  pause_ = Duration(0);
  retry_at_ = clock_.monotonic();
}

void SlotPool::RetryLater() {
  waiting_ = true;
  pause_ = std::clamp(pause_ * 4, kShortestPause, kLongestPause);
  retry_at_ = clock_.monotonic() + pause_;
}

}  // namespace dtrain

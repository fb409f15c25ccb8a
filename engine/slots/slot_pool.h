#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/unique_fd.h"
#include "engine/slots/slots.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// The slots of one trial: locks, which the trial's processes inherit, so that
/// the slots become free when the last process is gone.
struct SlotLease {
  std::vector<std::string> slots;  // "gpu:0", "cpu:1"
  std::vector<Gpu> gpus;
  std::vector<UniqueFd> locks;
  std::vector<UniqueFd> claims;  // that other users see
};

/// The trials that wait for slots, as `dtrain slots` shows them.
struct SlotWaiter {
  std::vector<std::string> trials;  // "EXP.N", in turn
  std::string store;
  // Slots of the first one here, if it has others elsewhere.
  std::optional<std::int64_t> part = std::nullopt;
};

/// Writes the holder into the files of `lease`, for `dtrain slots`.
void DescribeHolder(const SlotLease& lease, TrialId trial, std::int64_t pid,
                    const std::string& store);

/// Takes slots of this machine for one runner's trials, in the order of the
/// queue of all runners of this user. Slots that other users have are not
/// free. One thread.
class SlotPool {
 public:
  /// Throws Error(kResources) if the slot directory cannot be used.
  SlotPool(SlotPlan plan, Clock clock);
  ~SlotPool();

  /// Takes all slots that one trial needs, or those of a part of one, or none:
  /// then this runner queues. Call it again when `wake_fd` is readable or at
  /// `retry_at`.
  std::optional<SlotLease> TryTake(const SlotWaiter& waiter = {});
  /// Leaves the queue: no trial needs a slot.
  void StopWaiting();

  /// Excludes a GPU that has failed from new leases, or admits it again. Leases
  /// that have it keep it.
  void SetAside(std::int64_t gpu) { set_aside_.insert(gpu); }
  void Restore(std::int64_t gpu) { set_aside_.erase(gpu); }
  /// Number of trials that may run at once on the slots that are not set aside;
  /// with a plan of part_slots, of the smallest parts of trials.
  std::int64_t trials() const;
  /// True if not too many GPUs are set aside for a trial, or for a part of one
  /// that takes all part_slots.
  bool usable() const;

  /// True if the last try failed.
  bool waiting() const { return waiting_; }
  /// Time of the first failed try. REQUIRES: waiting().
  Timestamp waiting_since() const { return waiting_since_; }
  /// Readable when a slot may have become free; −1 without such a notice.
  int wake_fd() const { return watch_.get(); }
  /// Reads the events of `wake_fd`.
  void OnWake();
  Duration retry_at() const { return retry_at_; }

 private:
  struct SharedState;

  std::optional<SlotLease> TryTakeLocked();
  std::vector<std::string> LockSlots();
  std::vector<std::string> LockShare();
  std::vector<std::string> LockFree(const Gpu& gpu);
  bool Claim(const std::string& file, std::optional<int> part = std::nullopt);
  void Unlock(std::span<const std::string> files);
  void StartWatching();
  std::string Describe(const SlotWaiter& waiter) const;

  SlotPlan plan_;
  Clock clock_;
  std::unique_ptr<SharedState> shared_;
  std::vector<std::string> names_;  // files of the slots that it can use
  std::size_t needed_ = 1;  // slots of the present try, or quarters of one
  std::set<std::int64_t> set_aside_;  // GPUs
  bool waiting_ = false;
  Timestamp waiting_since_{0};
  UniqueFd watch_;
  Duration pause_{0};
  Duration retry_at_{0};
};

}  // namespace dtrain

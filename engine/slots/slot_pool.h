#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/unique_fd.h"
#include "engine/slots/slot_directory.h"
#include "engine/slots/slots.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// The slots that one trial has: locks, which the trial's processes inherit, so
/// that the slots are free when the last of them is gone.
struct SlotLease {
  std::vector<std::string> slots;  // "gpu:0", "cpu:1"
  std::vector<Gpu> gpus;
  std::vector<UniqueFd> locks;
};

/// The trials for which slots are taken, for those who look at who waits.
struct SlotWaiter {
  std::vector<std::string> trials;  // "EXP.N", in turn
  std::string store;
};

/// Says in the files of `lease` who holds it, for `dtrain slots`.
void DescribeHolder(const SlotLease& lease, TrialId trial, std::int64_t pid,
                    const std::string& store);

/// Takes slots of this machine for one runner's trials, in turn with all
/// runners of this user. One thread.
class SlotPool {
 public:
  /// Throws Error(kResources) if there can be no slot directory.
  SlotPool(SlotPlan plan, Clock clock);

  /// All slots that one trial needs, or none: then this runner waits, and this
  /// is to be called again when `wake_fd` is readable or at `retry_at`.
  std::optional<SlotLease> TryTake(const SlotWaiter& waiter = {});
  /// No trial wants a slot any more.
  void StopWaiting();

  /// Whether the last try was in vain.
  bool waiting() const { return waiting_; }
  /// When it was first in vain. REQUIRES: waiting().
  Timestamp waiting_since() const { return waiting_since_; }
  /// Readable when a slot may have come free; −1 if there is no such notice.
  int wake_fd() const { return watch_.get(); }
  /// Takes in what made `wake_fd` readable.
  void OnWake();
  Duration retry_at() const { return retry_at_; }

 private:
  std::optional<SlotLease> TryTakeLocked();
  std::vector<std::string> LockSlots();
  std::vector<std::string> LockShare();
  std::vector<std::string> LockRoom(const Gpu& gpu);
  void Unlock(std::span<const std::string> files);
  void StartWatching();
  void RetryLater();
  std::string Describe(const SlotWaiter& waiter) const;

  SlotPlan plan_;
  Clock clock_;
  SlotDirectory directory_;
  SlotQueue queue_;
  SlotFiles files_;
  std::vector<std::string> names_;  // of the slots that are of use: files
  std::size_t needed_ = 1;          // slots for a trial, or quarters of one
  bool waiting_ = false;
  Timestamp waiting_since_{0};
  UniqueFd watch_;
  Duration pause_{0};
  Duration retry_at_{0};
};

}  // namespace dtrain

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/clock.h"
#include "engine/nodes/nodes.h"
#include "engine/nodes/placement.h"
#include "engine/nodes/shared_trial.h"
#include "engine/nodes/worker_table.h"
#include "engine/process/launcher.h"

namespace dtrain {

/// The workers of an experiment as places for its trials: counts their slots,
/// dismisses workers that have drained or are not needed, and passes their
/// table on. One thread.
class WorkerPool {
 public:
  /// REQUIRES: `nodes` outlives this.
  WorkerPool(Nodes& nodes, WorkerHooks hooks, std::int64_t slots_per_trial,
             Clock clock);

  const MachineSlots& slots() const { return slots_; }
  /// Places of the next trial, by RANK, or by the names of their machines; none
  /// if there is no room.
  std::vector<ShardPlace> Place();
  void Take(TrialId trial, const std::vector<ShardPlace>& places);
  /// Frees the slots of the trial's shards that have ended.
  void FreeEnded(const SharedTrial& trial);
  /// A worker has joined, drains, is lost, or has another number of slots.
  void Update(int worker);

  /// Passes the table on if that is due, and lets workers go. `trials` could
  /// run now. Returns, once, why no more workers can be had.
  std::optional<WorkersFailed> RunTimers(std::size_t trials);

 private:
  WorkerTable Table(std::size_t trials) const;
  void Drain(int worker);
  void DismissIfDrained(int worker);

  Nodes& nodes_;
  const std::int64_t each_;  // slots of a trial
  WorkerUpdates updates_;
  MachineSlots slots_;
};

}  // namespace dtrain

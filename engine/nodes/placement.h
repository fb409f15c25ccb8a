#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtrain {

/// Slots of a machine that takes trials of an experiment. Node 0 is the
/// runner's machine.
struct NodeSlots {
  int node = 0;
  std::int64_t all = 0;
  std::int64_t free = 0;
};

/// Slots of a trial on one machine.
struct ShardPlace {
  int node = 0;
  std::int64_t slots = 0;

  friend bool operator==(const ShardPlace&, const ShardPlace&) = default;
};

/// Returns the number of further trials that there is room for now. A machine
/// with the slots of a whole trial takes whole trials only; smaller ones take
/// trials together. REQUIRES: slots_per_trial >= 1.
std::int64_t RoomForTrials(std::span<const NodeSlots> nodes,
                           std::int64_t slots_per_trial);

/// Chooses the machines of the next trial; none if RoomForTrials is 0. A whole
/// trial goes to the runner's machine if that has room, otherwise to the one
/// with the fewest free slots that has room, so that other machines become idle
/// and can be let go. Otherwise the trial is divided between as few machines as
/// possible.
std::vector<ShardPlace> PlaceTrial(std::span<const NodeSlots> nodes,
                                   std::int64_t slots_per_trial);

}  // namespace dtrain

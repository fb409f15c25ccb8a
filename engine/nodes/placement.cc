#include "engine/nodes/placement.h"

namespace dtrain {

std::int64_t RoomForTrials(std::span<const NodeSlots> nodes,
                           std::int64_t slots_per_trial) {
  std::int64_t trials = 0;
  for (const NodeSlots& node : nodes) trials += node.free / slots_per_trial;
  return trials;
}

std::optional<ShardPlace> PlaceTrial(std::span<const NodeSlots> nodes,
                                     std::int64_t slots_per_trial) {
  const NodeSlots* chosen = nullptr;
  for (const NodeSlots& node : nodes) {
    if (node.free < slots_per_trial) continue;
    if (node.node == 0) return ShardPlace{node.node, slots_per_trial};
    if (chosen == nullptr || node.free < chosen->free) chosen = &node;
  }
  if (chosen == nullptr) return std::nullopt;
  return ShardPlace{chosen->node, slots_per_trial};
}

}  // namespace dtrain

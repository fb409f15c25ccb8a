#include "engine/nodes/placement.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace dtrain {
namespace {

// Divides a trial between machines that are too small for a whole one: it takes
// all free slots of the largest, and the rest from the smallest that has them.
std::vector<ShardPlace> Divide(std::vector<NodeSlots> nodes,
                               std::int64_t slots) {
  std::ranges::stable_sort(nodes, std::ranges::greater(), &NodeSlots::free);
  std::vector<ShardPlace> places;
  for (auto node = nodes.begin(); slots > 0; ++node) {
    if (node->free >= slots) {
      while (node + 1 != nodes.end() && (node + 1)->free >= slots) ++node;
    }
    places.push_back({node->node, std::min(node->free, slots)});
    slots -= places.back().slots;
  }
  return places;
}

}  // namespace

std::int64_t RoomForTrials(std::span<const NodeSlots> nodes,
                           std::int64_t slots_per_trial) {
  std::int64_t trials = 0;
  std::int64_t small = 0;
  for (const NodeSlots& node : nodes) {
    if (node.all < slots_per_trial) {
      small += node.free;
    } else {
      trials += node.free / slots_per_trial;
    }
  }
  return trials + small / slots_per_trial;
}

std::vector<ShardPlace> PlaceTrial(std::span<const NodeSlots> nodes,
                                   std::int64_t slots_per_trial) {
  const NodeSlots* chosen = nullptr;
  std::vector<NodeSlots> small;
  std::int64_t of_small = 0;
  for (const NodeSlots& node : nodes) {
    if (node.all < slots_per_trial) {
      small.push_back(node);
      of_small += node.free;
    }
    if (node.free < slots_per_trial) continue;
    if (node.node == 0) return {{node.node, slots_per_trial}};
    if (chosen == nullptr || node.free < chosen->free) chosen = &node;
  }
  if (chosen != nullptr) return {{chosen->node, slots_per_trial}};
  if (of_small < slots_per_trial) return {};
  return Divide(std::move(small), slots_per_trial);
}

}  // namespace dtrain

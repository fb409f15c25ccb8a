#include "engine/nodes/placement.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace dtrain {

std::int64_t MachineSlots::Machine::free() const {
  return std::max<std::int64_t>(all - used, 0);
}

// Adds the machine to the sums and sets, or removes it with −1.
void MachineSlots::Count(int node, const Machine& machine, int sign) {
  const auto file = [sign](auto& set, const auto& key) {
    if (sign > 0) {
      set.insert(key);
    } else {
      set.erase(key);
    }
  };
  if (machine.all >= each_) {
    capacity_ += sign * (machine.all / each_);
    room_ += sign * (machine.free() / each_);
    if (machine.free() >= each_)
      file(by_free_, std::pair(machine.free(), node));
  } else if (machine.all > 0) {
    small_all_ += sign * machine.all;
    small_free_ += sign * machine.free();
    file(small_, node);
  }
}

template <typename Change>
void MachineSlots::Update(int node, const Change& change) {
  const auto entry = machines_.try_emplace(node).first;
  Machine& machine = entry->second;
  Count(node, machine, -1);
  change(machine);
  Count(node, machine, +1);
  if (machine.all == 0 && machine.trials.empty()) machines_.erase(entry);
}

void MachineSlots::Offer(int node, std::int64_t slots) {
  Update(node, [slots](Machine& machine) { machine.all = slots; });
}

void MachineSlots::Reserve(TrialId trial, const ShardPlace& place) {
  Update(place.node, [&](Machine& machine) {
    machine.used += place.slots;
    machine.trials[trial] += place.slots;
  });
}

void MachineSlots::Release(TrialId trial, int node) {
  Update(node, [&](Machine& machine) {
    const auto found = machine.trials.find(trial);
    if (found == machine.trials.end()) return;
    machine.used -= found->second;
    machine.trials.erase(found);
  });
}

const std::map<TrialId, std::int64_t>& MachineSlots::On(int node) const {
  static const std::map<TrialId, std::int64_t> kNone;
  const auto found = machines_.find(node);
  return found == machines_.end() ? kNone : found->second.trials;
}

std::int64_t MachineSlots::FewestSlots(
    std::int64_t (*count)(const Machine&)) const {
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (int node = 0; node < fixed_set_; ++node) {
    const auto found = machines_.find(node);
    fewest =
        std::min(fewest, found == machines_.end() ? 0 : count(found->second));
  }
  return fewest;
}

std::int64_t MachineSlots::Room() const {
  if (fixed_set_ == 1) return room_ + small_free_ / each_;
  return FewestSlots([](const Machine& it) { return it.free(); }) / each_;
}

std::int64_t MachineSlots::Capacity() const {
  if (fixed_set_ == 1) return capacity_ + small_all_ / each_;
  return FewestSlots([](const Machine& it) { return it.all; }) / each_;
}

std::vector<ShardPlace> MachineSlots::Place() const {
  if (fixed_set_ > 1) {
    std::vector<ShardPlace> all(
        Room() > 0 ? static_cast<std::size_t>(fixed_set_) : 0,
        {.slots = each_});
    for (int node = 0; ShardPlace & place : all) place.node = node++;
    return all;
  }
  const auto here = machines_.find(0);
  if (here != machines_.end() && here->second.free() >= each_) {
    return {{0, each_}};
  }
  if (!by_free_.empty()) return {{by_free_.begin()->second, each_}};
  if (small_free_ < each_) return {};
  return Divide();
}

// Divides a trial between machines that are too small for a whole one: it takes
// all free slots of the largest, and the rest from the smallest that has them.
std::vector<ShardPlace> MachineSlots::Divide() const {
  std::vector<ShardPlace> free;
  for (const int node : small_) {
    free.push_back({node, machines_.at(node).free()});
  }
  std::ranges::stable_sort(free, std::ranges::greater(), &ShardPlace::slots);
  std::vector<ShardPlace> places;
  std::int64_t left = each_;
  for (auto place = free.begin(); left > 0; ++place) {
    if (place->slots >= left) {
      while (place + 1 != free.end() && (place + 1)->slots >= left) ++place;
    }
    places.push_back({place->node, std::min(place->slots, left)});
    left -= places.back().slots;
  }
  return places;
}

}  // namespace dtrain

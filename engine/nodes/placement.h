#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "engine/wire/trial_spec.h"

namespace dtrain {

/// Slots of a trial on one machine.
struct ShardPlace {
  int node = 0;
  std::int64_t slots = 0;

  friend bool operator==(const ShardPlace&, const ShardPlace&) = default;
};

/// The slots of the machines that take trials of an experiment: which trials
/// use them, and where the next trial goes. Node 0 is the runner's machine. A
/// machine with the slots of a whole trial takes whole trials only; smaller
/// ones take trials together. A call takes O(log n), but for the division of a
/// trial.
///
/// With a fixed set of several machines, the nodes from 0 on, each trial takes
/// `slots_per_trial` on each of them instead.
class MachineSlots {
 public:
  /// REQUIRES: slots_per_trial >= 1, fixed_set >= 1.
  explicit MachineSlots(std::int64_t slots_per_trial, int fixed_set = 1)
      : each_(slots_per_trial), fixed_set_(fixed_set) {}

  /// Sets the number of slots of a machine; 0: it takes no more trials.
  void Offer(int node, std::int64_t slots);
  void Reserve(TrialId trial, const ShardPlace& place);
  /// No effect if the trial has no slots there.
  void Release(TrialId trial, int node);

  /// Slots in use on a machine, by trial.
  const std::map<TrialId, std::int64_t>& On(int node) const;
  /// Returns the number of further trials that there is room for now.
  std::int64_t Room() const;
  /// Returns the number of trials that all machines together can run at once.
  std::int64_t Capacity() const;

  /// Chooses the machines of the next trial; none if there is no room. A whole
  /// trial goes to the runner's machine if that has room, otherwise to the one
  /// with the fewest free slots that has room, so that other machines become
  /// idle and can be let go. Otherwise the trial is divided between as few
  /// machines as possible. Those of a fixed set are in the order of nodes.
  std::vector<ShardPlace> Place() const;

 private:
  struct Machine {
    std::int64_t all = 0;
    std::int64_t used = 0;
    std::map<TrialId, std::int64_t> trials;

    std::int64_t free() const;
  };

  // Calls `change` with the machine, and keeps the sums and sets below.
  template <typename Change>
  void Update(int node, const Change& change);
  void Count(int node, const Machine& machine, int sign);
  std::vector<ShardPlace> Divide() const;
  // Fewest slots that `count` finds on a machine of the fixed set.
  std::int64_t FewestSlots(std::int64_t (*count)(const Machine&)) const;

  const std::int64_t each_;          // slots of a trial
  const int fixed_set_;              // number of its machines; 1: none
  std::map<int, Machine> machines_;  // with slots or trials
  // Machines of whole trials: those with room by free slots, and trials.
  std::set<std::pair<std::int64_t, int>> by_free_;
  std::int64_t room_ = 0;
  std::int64_t capacity_ = 0;
  // Smaller machines, and their slots.
  std::set<int> small_;
  std::int64_t small_free_ = 0;
  std::int64_t small_all_ = 0;
};

}  // namespace dtrain

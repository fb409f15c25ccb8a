#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/config/experiment_config.h"

namespace dtrain {

/// One GPU of this machine.
struct Gpu {
  std::int64_t index = 0;  // as CUDA orders them by PCI bus
  std::string uuid;
  std::string name;
  std::int64_t memory_bytes = 0;
  std::int64_t free_bytes = 0;
  std::string driver;  // version
};

/// The GPUs of this machine, found in a child process, so that the caller
/// never opens a driver; empty where there is no NVIDIA driver. Takes up to
/// `limit`, then counts as none, with `*problem` saying so.
std::vector<Gpu> FindGpus(Duration limit, std::string* problem);

/// The CPUs this process may use (its affinity mask and cgroup quota).
std::int64_t UsableCpus();

/// How many quarters of a GPU that share of it is: 0.25, 0.5, 0.75 or 1.
std::int64_t QuartersOf(double gpu_share);

/// What slots an experiment has: `count` trials run at once, each on
/// `slots_per_trial` of them, and a slot is a GPU, a share of one, or a share
/// of the cores.
struct SlotPlan {
  std::int64_t count = 1;
  std::int64_t slots_per_trial = 1;
  std::int64_t threads = 1;               // a slot's; fixed for the experiment
  std::vector<Gpu> gpus;                  // empty: CPU slots
  std::int64_t cpu_tokens_per_trial = 1;  // CPUs of the machine a trial takes
  std::int64_t cpu_tokens = 1;            // CPUs that are shared out
  double gpu_share = 1;  // of its one GPU, for a trial: 1 or some quarters

  /// "4 CPU slots, 2 a trial, 1 thread each", "1 GPU slot: NVIDIA H200" or
  /// "8 GPU slots of a quarter: NVIDIA H200".
  std::string ToString() const;
};

/// Decides the slots as CONFIG says. `trials_at_once` is how many trials the
/// searcher would run at once (0: no bound). Throws Error(kResources) where
/// what is asked for can never be had on this machine.
SlotPlan PlanSlots(const ResourcesConfig& resources, std::vector<Gpu> gpus,
                   std::int64_t cpus, std::int64_t trials_at_once);

/// Who holds a slot, or a share of a GPU, as far as it says.
struct SlotHolder {
  std::int64_t pid = 0;  // 0: it has not said yet
  std::string trial;     // "EXP.N", or empty
  std::string store;     // its store's directory
  double share = 1;
};

/// The use of a slot of this machine at the moment, for `dtrain slots`.
struct SlotUse {
  std::string slot;  // "gpu:0", "cpu:1"
  std::vector<SlotHolder> holders;

  bool free() const { return holders.empty(); }
  /// What nobody holds: 1, 0, or some quarters of a GPU.
  double free_share() const;
};

/// What the trials of a runner without enough slots wait for.
struct SlotWait {
  std::vector<std::string> trials;  // "EXP.N", in turn
  std::string store;                // of their experiment
  double needed = 1;                // slots for one trial, or a share of one
  std::int64_t slots = 0;           // that a trial of it can use
  Timestamp since{0};
  std::vector<SlotHolder> holders;  // of these slots
  std::vector<SlotHolder> ahead;    // who wants them too, and waits longer

  /// "309.1", "310.2 of /other/store": the trials that hold the slots, and
  /// those that have them first.
  std::vector<std::string> HeldBy() const { return NamesOf(holders); }
  std::vector<std::string> After() const { return NamesOf(ahead); }
  /// "waiting for 1 of 2 slots, held by 309.1, after 310.1, which waits
  /// longer".
  std::string ToString() const;

 private:
  std::vector<std::string> NamesOf(const std::vector<SlotHolder>& all) const;
};

/// Those waits last longer than a start takes and are shown.
inline constexpr Duration kShownSlotWait = std::chrono::seconds(2);

/// The runners of this user on this machine that wait for slots. Only what
/// lives is among them.
std::vector<SlotWait> SlotWaits();

/// All slots of this machine and their use.
std::vector<SlotUse> SlotsInUse(const std::vector<Gpu>& gpus,
                                std::int64_t cpus);

}  // namespace dtrain

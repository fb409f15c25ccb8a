#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/wire/system_sample.h"

namespace dtrain {

/// A GPU of this machine, or a MIG instance, which is a part of a GPU with
/// memory and multiprocessors of its own.
struct Gpu {
  /// Number of its slot: for a GPU its place on the PCI bus, for a MIG instance
  /// a number above those of all GPUs, in the order of GPUs and instances.
  std::int64_t index = 0;
  std::string uuid;  // "GPU-…" or "MIG-…"
  std::string name;
  std::int64_t memory_bytes = 0;
  std::int64_t free_bytes = 0;
  std::string driver;  // version
  /// Only one process at a time may use it (compute mode EXCLUSIVE_PROCESS).
  bool exclusive = false;
  /// Place and UUID of the GPU that a MIG instance is a part of; -1 and empty
  /// for a GPU.
  std::int64_t parent = -1;
  std::string parent_uuid;
};

/// GPUs that trials can use.
struct GpuSearch {
  std::vector<Gpu> gpus;
  /// Reason why there is none although the machine seems to have some, and the
  /// remedy.
  /// Empty if there are GPUs, and on a machine without any.
  std::string problem;
  /// Reason why models cannot use the GPUs, and the remedy: the driver is too
  /// old for dtrain's LibTorch. Programs bring their own CUDA and can use them.
  std::string model_problem;
  /// GPUs that cannot be used, or that another user does, with the reason: one
  /// sentence each.
  std::vector<std::string> warnings;
};

/// Returns the GPUs of this machine that CUDA_VISIBLE_DEVICES allows. Asks the
/// driver in a child process, so that the caller never opens it. It is a
/// problem if that takes longer than `limit`.
GpuSearch FindGpus(Duration limit);

/// For trials that use dtrain's LibTorch: makes a `model_problem` the problem.
GpuSearch ForModels(GpuSearch search);

/// Libraries and directory that show whether there is a driver and a GPU.
struct DriverPaths {
  const char* nvml = "libnvidia-ml.so.1";
  const char* cuda = "libcuda.so.1";
  const char* pci = "/sys/bus/pci/devices";
};

/// Opens the driver's libraries and queries them. Ignores CUDA_VISIBLE_DEVICES.
/// May take seconds, hang or crash with the driver: call it in a child process.
GpuSearch AskNvidiaDriver(const DriverPaths& paths = {});

/// Makes a CUDA context on the GPU. Returns CUDA's reason if that fails, or
/// empty. As for AskNvidiaDriver, and it sets CUDA_VISIBLE_DEVICES: call it in
/// a child process. REQUIRES: CUDA was not used in this process.
std::string GpuFailure(const Gpu& gpu, const DriverPaths& paths = {});

/// Reads what GPUs do, by NVML, which needs no CUDA. Its functions may take
/// seconds, hang or crash with the driver: use it in a child process.
class GpuSensors {
 public:
  /// Opens the driver's library; without it, nothing is reported.
  explicit GpuSensors(const DriverPaths& paths = {});

  /// Returns the values of the GPU, or MIG instance, with this UUID or, if that
  /// is empty, place on the PCI bus. Drivers report only the memory of a MIG
  /// instance.
  GpuSample Read(std::int64_t gpu, const std::string& uuid);

 private:
  void* nvml_ = nullptr;                   // null: not available
  std::map<std::int64_t, void*> devices_;  // by the number of the GPU
};

/// "GPU 3 (GPU-4f1c…)".
std::string ToString(const Gpu& gpu);

/// Returns those of the GPUs that a value of CUDA_VISIBLE_DEVICES names,
/// without repetitions: numbers in the order of the PCI bus, and UUIDs of GPUs
/// and MIG instances or their first characters. The number or UUID of a GPU in
/// MIG mode means its first instance, as in CUDA. A negative number or
/// NoDevFiles ends the list. A name that matches no GPU, or several, is a
/// problem.
GpuSearch VisibleGpus(GpuSearch all, std::string_view cuda_visible_devices);

struct ResourcesConfig;
struct TrainerSettings;

/// Returns the CPUs that this process may use: affinity mask and cgroup quota.
std::int64_t UsableCpus();

/// Returns the number of quarters in a share of a GPU: 0.25, 0.5, 0.75 or 1.
std::int64_t ToQuarters(double gpu_share);

/// The slots of an experiment: `count` trials run at once, each on
/// `slots_per_trial` slots. A slot is a GPU, a share of one, or a share of the
/// cores.
struct SlotPlan {
  std::int64_t count = 1;
  std::int64_t slots_per_trial = 1;
  // For parts of trials, on a machine that has fewer than one trial takes.
  std::int64_t part_slots = 0;
  std::int64_t threads = 1;               // per slot; fixed
  std::vector<Gpu> gpus;                  // empty: CPU slots
  std::int64_t cpu_tokens_per_trial = 1;  // CPUs that a trial takes
  std::int64_t cpu_tokens = 1;            // CPUs to share
  double gpu_share = 1;                   // of a GPU for a trial
  std::vector<std::string> warnings;      // about GPUs that cannot be used

  /// Number of slots that trials and parts of trials may use at once.
  std::int64_t slots() const { return count * slots_per_trial + part_slots; }
  /// "4 CPU slots, 2 a trial, 1 thread each", "1 GPU slot: NVIDIA H200" or
  /// "8 GPU slots of a quarter: NVIDIA H200".
  std::string ToString() const;
};

/// Decides the slots by the configuration. `trials_at_once` is the searcher's
/// number of concurrent trials (0: no limit). Throws Error(kResources) if this
/// machine can never provide the requested slots. With `in_parts` it may have
/// fewer than a trial takes.
SlotPlan PlanSlots(const ResourcesConfig& resources, std::vector<Gpu> gpus,
                   std::int64_t cpus, std::int64_t trials_at_once,
                   bool in_parts = false);

/// Holder of a slot or a share of a GPU, as written into its file.
struct SlotHolder {
  std::int64_t pid = 0;  // 0: not written yet
  std::string trial;     // "EXP.N", or empty
  std::string store;     // its store's directory
  std::string user;      // "user bob", if it is another user
  double share = 1;
};

/// Current use of a slot of this machine, for `dtrain slots`.
struct SlotUse {
  std::string slot;  // "gpu:0", "cpu:1"
  std::vector<SlotHolder> holders;

  bool free() const { return holders.empty(); }
  /// Free share: 1, 0, or some quarters of a GPU.
  double free_share() const;
};

/// A runner's wait for slots for its trials.
struct SlotWait {
  std::vector<std::string> trials;  // "EXP.N", in order
  std::string store;                // of their experiment
  double needed = 1;                // slots for one trial, or a share of one
  std::int64_t slots = 0;           // that its trials can use
  bool are_cores = false;           // `needed` and `slots` count CPU cores
  Timestamp since{0};
  std::vector<SlotHolder> holders;  // of these slots
  std::vector<SlotHolder> ahead;    // that want them too and wait longer

  /// "309.1", "310.2 of /other/store": the trials that hold the slots, and
  /// those that have them first.
  std::vector<std::string> HeldBy() const { return HolderNames(holders); }
  std::vector<std::string> After() const { return HolderNames(ahead); }
  /// "waiting for 1 of 2 slots, held by 309.1, after 310.1, which waits
  /// longer".
  std::string ToString() const;

 private:
  std::vector<std::string> HolderNames(
      const std::vector<SlotHolder>& all) const;
};

/// Shorter waits are not shown: a start takes that long.
inline constexpr Duration kShownSlotWait = std::chrono::seconds(2);

/// Returns the waits of all living runners of this user on this machine.
std::vector<SlotWait> SlotWaits();

/// Returns all slots of this machine and their use.
std::vector<SlotUse> SlotsInUse(const std::vector<Gpu>& gpus,
                                std::int64_t cpus);

/// True if the CPU of this /proc/cpuinfo has instructions for `mixed_precision`
/// ("bf16" or "fp16"). Without them LibTorch converts to float and back: a step
/// of ResNet-18 took 16 times as long.
bool CpuComputesIn(const std::string& mixed_precision,
                   std::string_view cpuinfo);

/// Throws Error(kResources) if this machine's CPU has no instructions for the
/// precision that `settings` ask for.
void RequireCpuPrecision(const TrainerSettings& settings);

}  // namespace dtrain

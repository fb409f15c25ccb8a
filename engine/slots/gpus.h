#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"

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
  /// Of a MIG instance: the place and the UUID of its GPU. Otherwise -1, empty.
  std::int64_t parent = -1;
  std::string parent_uuid;
};

/// GPUs that trials can use.
struct GpuSearch {
  std::vector<Gpu> gpus;
  /// Why there is none although the machine seems to have some, and what to do.
  /// Empty if there are GPUs, and on a machine without any.
  std::string problem;
  /// GPUs that cannot be used, with the reason: one sentence each.
  std::vector<std::string> warnings;
};

/// Returns the GPUs of this machine that CUDA_VISIBLE_DEVICES allows. Asks the
/// driver in a child process, so that the caller never opens it. It is a
/// problem if that takes longer than `limit`.
GpuSearch FindGpus(Duration limit);

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
std::string WhyGpuFails(const Gpu& gpu, const DriverPaths& paths = {});

/// "GPU 3 (GPU-4f1c…)".
std::string ToString(const Gpu& gpu);

/// Returns those of the GPUs that a value of CUDA_VISIBLE_DEVICES names,
/// without repetitions: numbers in the order of the PCI bus, and UUIDs of GPUs
/// and MIG instances or their first characters. The number or UUID of a GPU in
/// MIG mode means its first instance, as in CUDA. A negative number or
/// NoDevFiles ends the list. A name that matches no GPU, or several, is a
/// problem.
GpuSearch VisibleGpus(GpuSearch all, std::string_view cuda_visible_devices);

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"

namespace dtrain {

/// One GPU of this machine.
struct Gpu {
  std::int64_t index = 0;  // in the order of the PCI bus
  std::string uuid;
  std::string name;
  std::int64_t memory_bytes = 0;
  std::int64_t free_bytes = 0;
  std::string driver;  // version
};

/// Returns the GPUs of this machine, empty without an NVIDIA driver. Asks in a
/// child process, so that the caller never opens a driver. If that takes longer
/// than `limit` or fails, returns none and sets `*problem`.
std::vector<Gpu> FindGpus(Duration limit, std::string* problem);

/// Answer of NVIDIA's driver.
struct NvidiaReport {
  std::vector<Gpu> gpus;
  std::string problem;  // reason for no GPU although there is a driver
};

/// Opens the driver's libraries and queries them. May take seconds, hang or
/// crash with the driver: call it in a child process.
NvidiaReport AskNvidiaDriver();

/// Returns the GPUs that CUDA_VISIBLE_DEVICES makes visible; `all` is in PCI
/// bus order. Accepts numbers and (prefixes of) UUIDs up to the first entry
/// that names no GPU, as CUDA does.
std::vector<Gpu> VisibleGpus(const std::vector<Gpu>& all,
                             std::string_view cuda_visible_devices);

}  // namespace dtrain

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/slots/slots.h"

namespace dtrain {

/// What NVIDIA's driver says of this machine.
struct NvidiaReport {
  std::vector<Gpu> gpus;
  std::string problem;  // why there are none although there is a driver
};

/// Opens the driver's libraries and asks them. May take seconds, hang or crash
/// with the driver: call it in a process of its own.
NvidiaReport AskNvidiaDriver();

/// The GPUs that CUDA_VISIBLE_DEVICES lets a process see, `all` being in the
/// order of the PCI bus. Numbers and (beginnings of) UUIDs count, up to the
/// first that names no GPU, as CUDA has it.
std::vector<Gpu> VisibleGpus(const std::vector<Gpu>& all,
                             std::string_view cuda_visible_devices);

}  // namespace dtrain

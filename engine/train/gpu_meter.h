#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/clock.h"

namespace dtrain {

/// How busy a trial's GPU is, as NVIDIA's driver has it: of all who use it. For
/// the process of a trial, which has opened the driver in any case; a runner
/// never does. One thread.
class GpuMeter {
 public:
  /// Of the first GPU in `visible`, which is as CUDA_VISIBLE_DEVICES: a UUID,
  /// or a number in the order of the PCI bus. Where there is no `library`, or
  /// the driver does not know the GPU, it measures nothing. May take some
  /// 100 ms.
  explicit GpuMeter(const std::string& visible,
                    const char* library = "libnvidia-ml.so.1");

  /// The share of about the last second, in percent, that it computed for; none
  /// if that is unknown or was told less than a second before `now`.
  std::optional<std::int64_t> Percent(Duration now);

 private:
  struct Rates {
    unsigned gpu;
    unsigned memory;
  };

  int (*ask_)(void* device, Rates* rates) = nullptr;  // null: unknown
  void* device_ = nullptr;
  std::optional<Duration> told_;
};

}  // namespace dtrain

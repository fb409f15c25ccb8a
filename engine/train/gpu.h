#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/clock.h"
#include "engine/data/cuda_half.h"

namespace dtrain {

/// Memory of this process's first GPU, in bytes.
struct GpuMemory {
  std::int64_t total = 0;
  std::int64_t free = 0;
  std::int64_t reserved = 0;   // held by this process's LibTorch
  std::int64_t allocated = 0;  // of that, by tensors
  std::int64_t peak = 0;       // the most that tensors had at one time
  std::int64_t limit = 0;      // what this process may reserve; 0: no limit
};

/// Reads it from LibTorch's allocator and the driver. Throws c10::Error.
using ReadGpuMemory = void (*)(GpuMemory* memory);
/// Its name in libdtrain_trial_cuda.so.
inline constexpr char kReadGpuMemory[] = "DtrainReadGpuMemory";

/// Lets this process reserve at most `share` (0 to 1) of its first GPU.
using LimitGpuMemory = void (*)(double share);
inline constexpr char kLimitGpuMemory[] = "DtrainLimitGpuMemory";

/// What to say of a GPU that ran out of memory: who has it, and what helps.
std::string OutOfMemoryMessage(const GpuMemory& memory);

/// The memory of this process's first GPU; none where LibTorch's CUDA half is
/// not open. Throws c10::Error.
inline std::optional<GpuMemory> ReadGpu() {
  const auto read = FromCudaHalf<ReadGpuMemory>(kReadGpuMemory);
  if (read == nullptr) return std::nullopt;
  GpuMemory memory;
  read(&memory);
  return memory;
}

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
  std::optional<Duration> last_read_;
};

}  // namespace dtrain

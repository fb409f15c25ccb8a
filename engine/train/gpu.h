#pragma once

#include <cstddef>
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
  std::int64_t allocated = 0;  // part of `reserved` in use by tensors
  std::int64_t peak = 0;       // maximum of `allocated` so far
  std::int64_t limit = 0;      // maximum of `reserved`; 0: no limit
};

/// Reads the memory counters of LibTorch's allocator and of the driver. Throws
/// c10::Error.
using ReadGpuMemory = void (*)(GpuMemory* memory);
/// Name of the ReadGpuMemory function in libdtrain_trial_cuda.so.
inline constexpr char kReadGpuMemory[] = "DtrainReadGpuMemory";

/// Limits this process to a `share` (0 to 1) of the memory of its first GPU.
using LimitGpuMemory = void (*)(double share);
inline constexpr char kLimitGpuMemory[] = "DtrainLimitGpuMemory";

/// Copies `bytes` from the host to the GPU on a cudaStream_t, without waiting
/// if the host's memory is pinned. Unlike a copy by LibTorch, does not tie that
/// memory to the stream: the caller keeps it until it is copied. Throws
/// c10::Error.
using CopyToGpu = void (*)(void* to, const void* from, std::size_t bytes,
                           void* stream);
inline constexpr char kCopyToGpu[] = "DtrainCopyToGpu";

/// Error message for a GPU that ran out of memory: who holds the memory, and
/// what to do.
std::string OutOfMemoryMessage(const GpuMemory& memory);

/// Memory of this process's first GPU; empty if LibTorch's CUDA half is not
/// loaded. Throws c10::Error.
inline std::optional<GpuMemory> ReadGpu() {
  const auto read = FromCudaHalf<ReadGpuMemory>(kReadGpuMemory);
  if (read == nullptr) return std::nullopt;
  GpuMemory memory;
  read(&memory);
  return memory;
}

/// Measures the GPU memory of this process's CUDA context: code, stacks and
/// buffers of the driver, some hundred MB that LibTorch's limit of a process
/// does not count. By NVML, which reports memory of each process or, in a
/// container, of the GPU as a whole. Not thread-safe.
class ContextMeter {
 public:
  /// Opens the first GPU of `visible`, as GpuMeter does. REQUIRES: this process
  /// has no context on it yet.
  explicit ContextMeter(const std::string& visible,
                        const char* library = "libnvidia-ml.so.1");

  /// Returns the memory of the context, in bytes; an estimate if NVML does not
  /// tell. REQUIRES: the context exists.
  std::int64_t Bytes() const;

 private:
  void* nvml_ = nullptr;  // null: not available
  void* device_ = nullptr;
  std::int64_t used_before_ = 0;  // memory of the GPU used by all processes
};

/// Returns the bytes that LibTorch may reserve in a process with a `share` (0
/// to 1) of a GPU of `total` bytes, so that it and the context, of `context`
/// bytes and what the driver loads later, stay within the share. At least 0.
std::int64_t LimitOfShare(double share, std::int64_t total,
                          std::int64_t context);

/// Reads the utilisation of a trial's GPU, by all processes that use it, from
/// NVIDIA's driver library. Only trial processes use it: they have opened the
/// driver anyway, a runner never does. Not thread-safe.
class GpuMeter {
 public:
  /// Opens the first GPU of `visible`, which has the format of
  /// CUDA_VISIBLE_DEVICES: a UUID, or an index in PCI bus order. Without the
  /// `library`, or if the driver does not know the GPU, Percent is always
  /// empty. May take about 100 ms.
  explicit GpuMeter(const std::string& visible,
                    const char* library = "libnvidia-ml.so.1");

  /// Utilisation over about the last second, in percent. Empty if unknown, or
  /// if the last value was returned less than a second before `now`.
  std::optional<std::int64_t> Percent(Duration now);

 private:
  struct Rates {
    unsigned gpu;
    unsigned memory;
  };

  int (*ask_)(void* device, Rates* rates) = nullptr;  // null: not available
  void* device_ = nullptr;
  std::optional<Duration> last_read_;
};

}  // namespace dtrain

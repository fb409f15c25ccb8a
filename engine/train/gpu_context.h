#pragma once

#include <cstdint>
#include <string>

namespace dtrain {

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

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <string>

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

}  // namespace dtrain

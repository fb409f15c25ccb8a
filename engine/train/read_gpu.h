#pragma once

#include <optional>

#include "engine/data/cuda_half.h"
#include "engine/train/gpu_memory.h"

namespace dtrain {

/// The memory of this process's first GPU; none where LibTorch's CUDA half is
/// not open. Throws c10::Error.
inline std::optional<GpuMemory> ReadGpu() {
  const auto read = FromCudaHalf<ReadGpuMemory>(kReadGpuMemory);
  if (read == nullptr) return std::nullopt;
  GpuMemory memory;
  read(&memory);
  return memory;
}

}  // namespace dtrain

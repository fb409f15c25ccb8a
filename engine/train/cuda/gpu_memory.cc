#include "engine/train/gpu_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>

extern "C" [[gnu::visibility("default")]] std::int64_t DtrainGpuPeakBytes() {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  return stats.allocated_bytes[0].peak;  // [0]: of all sizes together
}

#include "engine/train/gpu_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

}  // namespace

extern "C" [[gnu::visibility("default")]] void DtrainReadGpuMemory(
    dtrain::GpuMemory* memory) {
  const auto stats = allocator::getDeviceStats(0);
  std::size_t free = 0;
  std::size_t total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const double share = allocator::getMemoryFraction(0);
  // [0]: of all sizes together.
  *memory = {.total = static_cast<std::int64_t>(total),
             .free = static_cast<std::int64_t>(free),
             .reserved = stats.reserved_bytes[0].current,
             .allocated = stats.allocated_bytes[0].current,
             .peak = stats.allocated_bytes[0].peak};
  if (share < 1) {
    memory->limit =
        static_cast<std::int64_t>(static_cast<double>(total) * share);
  }
}

extern "C" [[gnu::visibility("default")]] void DtrainLimitGpuMemory(
    double share) {
  allocator::setMemoryFraction(share, 0);
}

#pragma once

// Shared by the host path and the CUDA kernel, so that both give the same
// bits. No Torch, no standard library: nvcc reads it too.

#include <cstddef>
#include <cstdint>

#include "engine/image/channel_scale.h"

namespace dtrain {

/// What a gather reads and writes. Pointers are to one device's memory.
struct GatherJob {
  const std::uint8_t* images = nullptr;   // [set, channels, pixels]
  const std::int64_t* labels = nullptr;   // [set]
  const std::int64_t* samples = nullptr;  // [batch]: which of the set
  const ChannelScale* scales = nullptr;   // [channels]
  float* data = nullptr;                  // [batch, channels, pixels]
  std::int64_t* target = nullptr;         // [batch]
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t pixels = 0;
};

/// The kernel of libdtrain_trial_cuda.so, found by its name where that library
/// was opened: queues the job on a cudaStream_t and returns the cudaError_t.
using GatherOnCuda = int (*)(const GatherJob* job, void* stream);
inline constexpr char kGatherOnCuda[] = "DtrainGatherNormalize";

}  // namespace dtrain

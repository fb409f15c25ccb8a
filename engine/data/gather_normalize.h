#pragma once

// Shared by the host path and the CUDA kernel, so that both give the same
// bits. No Torch, no standard library: nvcc reads it too.

#include <cstddef>
#include <cstdint>

#include "engine/data/augmentation.h"
#include "engine/data/seeds.h"
#include "engine/image/channel_scale.h"

namespace dtrain {

/// What a gather reads and writes. Pointers are to one device's memory.
struct GatherJob {
  const std::uint8_t* images = nullptr;   // [set, channels, height, width]
  const std::int64_t* labels = nullptr;   // [set]
  const std::int64_t* samples = nullptr;  // [batch]: which of the set
  const ChannelScale* scales = nullptr;   // [channels]
  float* data = nullptr;                  // [batch, channels, height, width]
  std::int64_t* target = nullptr;         // [batch]
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  Augmentation augmentation;
  std::uint64_t pass_seed = 0;  // of what is random in it

  DTRAIN_HOST_DEVICE std::int64_t size() const {
    return channels * height * width;
  }
};

/// Where what the batch has of image `sample` lies in it.
DTRAIN_HOST_DEVICE inline Placement PlacementIn(const GatherJob& job,
                                                std::int64_t sample) {
  return PlacementOf(job.augmentation, SampleSeed(job.pass_seed, sample));
}

/// Number `i` of what the batch has of the image that begins at `from`.
DTRAIN_HOST_DEVICE inline float GatheredNumber(const GatherJob& job,
                                               const std::uint8_t* from,
                                               const Placement& placement,
                                               std::int64_t i) {
  const std::int64_t plane = i / (job.height * job.width);
  const std::int64_t rest = i % (job.height * job.width);
  const std::int64_t row = rest / job.width + placement.down;
  const std::int64_t at = rest % job.width;
  const std::int64_t column =
      (placement.mirrored ? job.width - 1 - at : at) + placement.right;
  const bool is_inside =
      row >= 0 && row < job.height && column >= 0 && column < job.width;
  const std::uint8_t pixel =
      is_inside ? from[(plane * job.height + row) * job.width + column]
                : std::uint8_t{0};
  return NormalizePixel(pixel, job.scales[plane]);
}

/// The kernel of libdtrain_trial_cuda.so, found by its name where that library
/// was opened: queues the job on a cudaStream_t and returns the cudaError_t.
using GatherOnCuda = int (*)(const GatherJob* job, void* stream);
inline constexpr char kGatherOnCuda[] = "DtrainGatherNormalize";

}  // namespace dtrain

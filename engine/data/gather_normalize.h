#pragma once

// Shared by the host path and the CUDA kernel, so that both compute the same
// bits. Without Torch, and of the standard library only <cstdint> and
// <cstddef>, because nvcc compiles it, too.

#include <cstddef>
#include <cstdint>

#include "engine/base/host_device.h"
#include "engine/base/rng.h"
#include "engine/data/seeds.h"
#include "engine/image/channel_scale.h"

namespace dtrain {

/// Augmentation of training images, like torchvision's RandomCrop with padding
/// and RandomHorizontalFlip.
struct Augmentation {
  // Width in pixels of a black border around the image; the crop has the
  // image's own size.
  std::int64_t padding = 0;
  bool flip = false;  // mirrored left to right with probability 1/2
};

/// Position of the crop, and whether it is mirrored.
struct Placement {
  std::int64_t down = 0;   // rows, from −padding to padding
  std::int64_t right = 0;  // columns, likewise
  bool mirrored = false;

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// Placement of one sample. Depends only on its seed: see SampleSeed.
DTRAIN_HOST_DEVICE constexpr Placement DrawPlacement(
    const Augmentation& augmentation, std::uint64_t sample_seed) {
  // From 32 bits, so that the bias of the remainder is negligible.
  const auto places = static_cast<std::uint64_t>(2 * augmentation.padding + 1);
  const std::uint64_t bits = SplitMix64(sample_seed);
  const auto place = [&](std::uint64_t word) {
    return static_cast<std::int64_t>((word * places) >> 32) -
           augmentation.padding;
  };
  return {.down = place(bits >> 32),
          .right = place(bits & 0xFFFFFFFF),
          .mirrored = augmentation.flip && (SplitMix64(bits) & 1) != 0};
}

/// Inputs and outputs of a gather. Pointers are to the memory of one device.
struct GatherJob {
  const std::uint8_t* images = nullptr;   // [set, channels, height, width]
  const std::int64_t* labels = nullptr;   // [set]
  const std::int64_t* samples = nullptr;  // indices into the set
  // [1]: the batch is samples[*position] and the following; null: samples[0].
  const std::int64_t* position = nullptr;
  const ChannelScale* scales = nullptr;  // [channels]
  float* data = nullptr;                 // [batch, channels, height, width]
  std::int64_t* target = nullptr;        // [batch]
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  Augmentation augmentation;
  std::uint64_t pass_seed = 0;  // seed of the pass
  // [1]: takes precedence over `pass_seed`, unless it is null.
  const std::int64_t* pass_seed_at = nullptr;

  DTRAIN_HOST_DEVICE std::int64_t size() const {
    return channels * height * width;
  }
};

/// Index in the set of the image in row `row` of the batch.
DTRAIN_HOST_DEVICE inline std::int64_t SampleAt(const GatherJob& job,
                                                std::int64_t row) {
  return job.samples[(job.position == nullptr ? 0 : *job.position) + row];
}

/// Placement of image `sample` in the batch.
DTRAIN_HOST_DEVICE inline Placement PlacementIn(const GatherJob& job,
                                                std::int64_t sample) {
  const std::uint64_t seed =
      job.pass_seed_at == nullptr
          ? job.pass_seed
          : static_cast<std::uint64_t>(*job.pass_seed_at);
  return DrawPlacement(job.augmentation, SampleSeed(seed, sample));
}

/// Value `i` of the image that starts at `from`, after crop, flip and
/// normalisation.
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

/// The kernel in libdtrain_trial_cuda.so, found by name if that library is
/// loaded. Queues the job on a cudaStream_t; returns the cudaError_t.
using GatherOnCuda = int (*)(const GatherJob* job, void* stream);
inline constexpr char kGatherOnCuda[] = "DtrainGatherNormalize";

}  // namespace dtrain

#pragma once

// Shared by the host path and the CUDA kernel, so that both give the same
// bits. No Torch, no standard library but for <cstdint>: nvcc reads it too.

#include <cstdint>

#include "engine/base/rng.h"
#include "engine/data/seeds.h"
#include "engine/image/channel_scale.h"

namespace dtrain {

/// What becomes of an image that is trained on, as torchvision's RandomCrop
/// with padding and RandomHorizontalFlip do it.
struct Augmentation {
  // Black pixels that are thought around the image; what is seen of that is a
  // piece of the image's own size, anywhere.
  std::int64_t padding = 0;
  bool flip = false;  // mirrored left to right, or not, by equal chance
};

/// Where what is seen of an image begins, and whether it is mirrored.
struct Placement {
  std::int64_t down = 0;   // rows, from −padding to padding
  std::int64_t right = 0;  // the same for columns
  bool mirrored = false;

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// That of one sample, which depends on nothing else: see SampleSeed.
DTRAIN_HOST_DEVICE constexpr Placement PlacementOf(
    const Augmentation& augmentation, std::uint64_t sample_seed) {
  // Of 32 bits, so that the bias of the remainder is of no account.
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

}  // namespace dtrain

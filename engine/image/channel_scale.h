#pragma once

// Shared by the host code and the CUDA kernel, so that both give the same bits.
// Compiled by nvcc, too, so it includes neither Torch nor the standard library.

#include <cstdint>

#include "engine/base/host_device.h"

namespace dtrain {

/// Normalisation of one channel: x · scale + bias, which is (x/255 − mean)/std.
struct ChannelScale {
  float scale = 1;
  float bias = 0;
};

/// REQUIRES: the compiler does not fuse the multiplication and the addition
/// (ISO mode for gcc, -fmad=false for nvcc).
DTRAIN_HOST_DEVICE inline float NormalizePixel(std::uint8_t pixel,
                                               ChannelScale channel) {
  return static_cast<float>(pixel) * channel.scale + channel.bias;
}

}  // namespace dtrain

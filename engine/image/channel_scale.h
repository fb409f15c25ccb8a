#pragma once

// Shared by the host path and the CUDA kernel, so that both give the same
// bits. No Torch, no standard library: nvcc reads it too.

#include <cstdint>

#ifdef __CUDACC__
#define DTRAIN_HOST_DEVICE __host__ __device__
#else
#define DTRAIN_HOST_DEVICE
#endif

namespace dtrain {

/// How the pixels of one channel become numbers: x · scale + bias, which is
/// (x/255 − mean)/std.
struct ChannelScale {
  float scale = 1;
  float bias = 0;
};

/// REQUIRES: the compiler contracts no multiplication and addition into one
/// (ours do not: ISO mode, and nvcc has -fmad=false).
DTRAIN_HOST_DEVICE inline float NormalizePixel(std::uint8_t pixel,
                                               ChannelScale channel) {
  return static_cast<float>(pixel) * channel.scale + channel.bias;
}

}  // namespace dtrain

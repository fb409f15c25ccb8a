#pragma once

// CUDA kernels for a convolution with ReLU and pooling, with the rules of the
// CPU's (conv_rules.h). A layer needs one launch forward and two backward,
// where LibTorch needs four and six. They suit layers with few channels, whose
// steps are bound by launches: each thread computes one value by plain loops,
// without tiles in shared memory. Without Torch, and compiled by nvcc, too.

#include <cstdint>

#include "engine/base/host_device.h"
#include "engine/kernels/conv.h"
#include "engine/kernels/conv_call.h"
#include "engine/kernels/conv_rules.h"
#include "engine/kernels/thread_block.h"

namespace dtrain {

/// Threads of a block of any of these kernels.
inline constexpr int kConvThreads = 256;

/// A forward pass. `data` points to the memory of one device; `kept` has a byte
/// for each value of the output. REQUIRES: each tensor has fewer than 2^31
/// elements.
struct ConvForwardJob {
  ConvSizes sizes;
  std::int64_t images = 0;
  ConvForwardData data;
};

/// A backward pass. Unlike on CPUs, gradients by weight and bias are
/// overwritten.
struct ConvBackwardJob {
  ConvSizes sizes;
  std::int64_t images = 0;
  ConvBackwardData data;
};

constexpr std::int64_t ConvBlocks(std::int64_t threads) {
  return (threads + kConvThreads - 1) / kConvThreads;
}

/// Position of a value of [images, channels, height, width].
struct ConvPlace {
  std::int64_t image;
  int channel;
  int row;
  int column;
};

DTRAIN_HOST_DEVICE inline ConvPlace ToConvPlace(std::int64_t at,
                                                std::int64_t channels,
                                                std::int64_t height,
                                                std::int64_t width) {
  // Divisions of 32 bits are several times as fast on a GPU.
  const auto value = static_cast<std::uint32_t>(at);
  const auto columns = static_cast<std::uint32_t>(width);
  const auto pixels = static_cast<std::uint32_t>(height) * columns;
  const std::uint32_t plane = value / pixels;
  const std::uint32_t pixel = value % pixels;
  return {
      .image = plane / static_cast<std::uint32_t>(channels),
      .channel = static_cast<int>(plane % static_cast<std::uint32_t>(channels)),
      .row = static_cast<int>(pixel / columns),
      .column = static_cast<int>(pixel % columns)};
}

/// Number of values of the output, each of them computed by a thread.
DTRAIN_HOST_DEVICE inline std::int64_t ConvForwardThreads(
    const ConvForwardJob& job) {
  return job.images * job.sizes.out_channels * job.sizes.output_height *
         job.sizes.output_width;
}

/// Adds the products that make up the pixels of the pooling window at (top,
/// left), or only the first of them without pooling.
DTRAIN_HOST_DEVICE inline void AddConvProducts(const ConvForwardJob& job,
                                               const ConvPlace& place, int top,
                                               int left, float (&sum)[4]) {
  const ConvSizes& sizes = job.sizes;
  const auto kernel = static_cast<int>(sizes.kernel);
  const float* weight = job.data.weight + place.channel * sizes.in_channels *
                                              sizes.kernel * sizes.kernel;
  const float* plane = job.data.input + place.image * sizes.in_channels *
                                            sizes.height * sizes.width;
  for (std::ptrdiff_t c = 0; c < sizes.in_channels; ++c) {
    for (int i = 0; i < kernel; ++i) {
      for (int j = 0; j < kernel; ++j) {
        const float factor = *weight++;
        for (int p = 0; p < 4; ++p) {
          if (p > 0 && !sizes.pool) continue;
          const std::ptrdiff_t row = top + i + p / 2 - sizes.padding;
          const std::ptrdiff_t column = left + j + p % 2 - sizes.padding;
          if (row < 0 || row >= sizes.height) continue;
          if (column < 0 || column >= sizes.width) continue;
          sum[p] += plane[row * sizes.width + column] * factor;
        }
      }
    }
    plane += sizes.height * sizes.width;
  }
}

/// One value of the output.
DTRAIN_HOST_DEVICE inline void ConvForwardThread(const ConvForwardJob& job,
                                                 std::int64_t block,
                                                 int thread) {
  const std::int64_t at = block * kConvThreads + thread;
  if (at >= ConvForwardThreads(job)) return;
  const ConvSizes& sizes = job.sizes;
  const ConvPlace place = ToConvPlace(at, sizes.out_channels,
                                      sizes.output_height, sizes.output_width);
  const float start =
      job.data.bias != nullptr ? job.data.bias[place.channel] : 0.0F;
  const int window = sizes.pool ? 2 : 1;
  float sum[4] = {start, start, start, start};
  AddConvProducts(job, place, window * place.row, window * place.column, sum);
  int which = 0;
  const float value = sizes.pool ? LargestOfWindow(sum, which) : sum[0];
  const bool is_closed = ClosedByRelu<int>(value, sizes.relu) != 0;
  job.data.output[at] = is_closed ? 0.0F : value;
  if (job.data.kept == nullptr || !(sizes.relu || sizes.pool)) return;
  job.data.kept[at] = static_cast<std::uint8_t>(is_closed ? kClosed : which);
}

/// Where value `at` of the output came from, as forward left it in `kept`.
DTRAIN_HOST_DEVICE inline int KeptPlace(const ConvBackwardJob& job,
                                        std::int64_t at) {
  return job.sizes.relu || job.sizes.pool ? job.data.kept[at] : 0;
}

/// Number of values of the input, of whose gradient each thread computes one.
DTRAIN_HOST_DEVICE inline std::int64_t ConvInputThreads(
    const ConvBackwardJob& job) {
  return job.images * job.sizes.in_channels * job.sizes.height *
         job.sizes.width;
}

/// Gradient by a pixel of the convolution's output, before ReLU and pooling; 0
/// outside of it.
DTRAIN_HOST_DEVICE inline float ConvPixelGradient(const ConvBackwardJob& job,
                                                  std::int64_t image,
                                                  std::ptrdiff_t channel,
                                                  std::ptrdiff_t row,
                                                  std::ptrdiff_t column) {
  const ConvSizes& sizes = job.sizes;
  if (row < 0 || row >= sizes.rows) return 0;
  if (column < 0 || column >= sizes.columns) return 0;
  const int window = sizes.pool ? 2 : 1;
  const std::int64_t at =
      ((image * sizes.out_channels + channel) * sizes.output_height +
       row / window) *
          sizes.output_width +
      column / window;
  const auto which = static_cast<int>(row % window * 2 + column % window);
  return KeptPlace(job, at) == which ? job.data.grad_output[at] : 0.0F;
}

/// Gradient by one value of the input: a convolution with the kernel rotated by
/// 180 degrees.
DTRAIN_HOST_DEVICE inline void ConvInputThread(const ConvBackwardJob& job,
                                               std::int64_t block, int thread) {
  const std::int64_t at = block * kConvThreads + thread;
  if (at >= ConvInputThreads(job)) return;
  const ConvSizes& sizes = job.sizes;
  const ConvPlace place =
      ToConvPlace(at, sizes.in_channels, sizes.height, sizes.width);
  const auto kernel = static_cast<int>(sizes.kernel);
  float sum = 0;
  for (std::ptrdiff_t o = 0; o < sizes.out_channels; ++o) {
    const float* weight =
        job.data.weight +
        (o * sizes.in_channels + place.channel) * kernel * kernel;
    for (int i = kernel - 1; i >= 0; --i) {
      for (int j = kernel - 1; j >= 0; --j) {
        sum += weight[i * kernel + j] *
               ConvPixelGradient(job, place.image, o,
                                 place.row + sizes.padding - i,
                                 place.column + sizes.padding - j);
      }
    }
  }
  job.data.grad_input[at] = sum;
}

/// Number of weights and biases; a block computes the gradient of each.
DTRAIN_HOST_DEVICE inline std::int64_t ConvParameterBlocks(
    const ConvBackwardJob& job) {
  const ConvSizes& sizes = job.sizes;
  return sizes.out_channels *
         (sizes.in_channels * sizes.kernel * sizes.kernel + 1);
}

/// Position of a weight, or of a bias.
struct ConvParameter {
  bool is_bias;
  std::ptrdiff_t out;
  std::ptrdiff_t in;
  std::ptrdiff_t row;
  std::ptrdiff_t column;
};

DTRAIN_HOST_DEVICE inline ConvParameter ToConvParameter(const ConvSizes& sizes,
                                                        std::int64_t block) {
  const std::ptrdiff_t area = sizes.kernel * sizes.kernel;
  const std::ptrdiff_t weights = sizes.out_channels * sizes.in_channels * area;
  if (block >= weights) {
    return {.is_bias = true,
            .out = block - weights,
            .in = 0,
            .row = 0,
            .column = 0};
  }
  return {.is_bias = false,
          .out = block / area / sizes.in_channels,
          .in = block / area % sizes.in_channels,
          .row = block % area / sizes.kernel,
          .column = block % sizes.kernel};
}

/// Sum over every kConvThreads-th value of a channel of the output.
DTRAIN_HOST_DEVICE inline float ConvParameterSum(const ConvBackwardJob& job,
                                                 const ConvParameter& parameter,
                                                 int thread) {
  const ConvSizes& sizes = job.sizes;
  const int window = sizes.pool ? 2 : 1;
  const std::int64_t values =
      job.images * sizes.output_height * sizes.output_width;
  float sum = 0;
  for (std::int64_t i = thread; i < values; i += kConvThreads) {
    const ConvPlace place =
        ToConvPlace(i, /*channels=*/1, sizes.output_height, sizes.output_width);
    const std::int64_t at =
        ((place.image * sizes.out_channels + parameter.out) *
             sizes.output_height +
         place.row) *
            sizes.output_width +
        place.column;
    const int which = KeptPlace(job, at);
    if (which == kClosed) continue;
    const float gradient = job.data.grad_output[at];
    if (parameter.is_bias) {
      sum += gradient;
      continue;
    }
    const std::ptrdiff_t row =
        window * place.row + which / 2 + parameter.row - sizes.padding;
    const std::ptrdiff_t column =
        window * place.column + which % 2 + parameter.column - sizes.padding;
    if (row < 0 || row >= sizes.height) continue;
    if (column < 0 || column >= sizes.width) continue;
    sum += gradient *
           job.data.input[((place.image * sizes.in_channels + parameter.in) *
                               sizes.height +
                           row) *
                              sizes.width +
                          column];
  }
  return sum;
}

/// Gradient by one weight or bias. `sums`: kConvThreads floats that the block
/// shares.
template <typename Block>
DTRAIN_HOST_DEVICE void ConvParameterBlock(const ConvBackwardJob& job,
                                           std::int64_t index, float* sums,
                                           const Block& block) {
  const ConvParameter parameter = ToConvParameter(job.sizes, index);
  float* to = parameter.is_bias ? job.data.grad_bias : job.data.grad_weight;
  if (to == nullptr) return;
  block.ForEach([&](int thread) {
    sums[thread] = ConvParameterSum(job, parameter, thread);
  });
  AddUp(sums, kConvThreads, block);
  block.ForEach([&](int thread) {
    if (thread == 0) to[parameter.is_bias ? parameter.out : index] = sums[0];
  });
}

/// The kernels in libdtrain_trial_cuda.so, found by name if that library is
/// loaded. They queue the job on a cudaStream_t and return the cudaError_t.
struct ConvCudaKernels {
  int (*forward)(const ConvForwardJob* job, void* stream) = nullptr;
  int (*backward)(const ConvBackwardJob* job, void* stream) = nullptr;
};
inline constexpr char kConvForwardOnCuda[] = "DtrainConvForward";
inline constexpr char kConvBackwardOnCuda[] = "DtrainConvBackward";

}  // namespace dtrain

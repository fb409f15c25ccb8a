#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "engine/kernels/conv_call.h"
#include "engine/kernels/conv_cuda.h"
#include "tests/engine/kernels/host_block.h"

namespace dtrain {

/// The CUDA kernels on the CPU, with the grids of engine/kernels/cuda/conv.cu.
template <bool kReversed>
int ConvForwardOnHost(const ConvForwardJob* job, void*) {
  const HostBlock block{kConvThreads, kReversed};
  for (std::int64_t i = 0; i < ConvBlocks(ConvForwardThreads(*job)); ++i) {
    block.ForEach([&](int thread) { ConvForwardThread(*job, i, thread); });
  }
  return 0;
}

template <bool kReversed>
int ConvBackwardOnHost(const ConvBackwardJob* job, void*) {
  const HostBlock block{kConvThreads, kReversed};
  if (job->data.grad_input != nullptr) {
    for (std::int64_t i = 0; i < ConvBlocks(ConvInputThreads(*job)); ++i) {
      block.ForEach([&](int thread) { ConvInputThread(*job, i, thread); });
    }
  }
  for (std::int64_t i = 0; i < ConvParameterBlocks(*job); ++i) {
    // Memory of a GPU's block has any values at first.
    std::vector<float> sums(kConvThreads,
                            std::numeric_limits<float>::quiet_NaN());
    ConvParameterBlock(*job, i, sums.data(), block);
  }
  return 0;
}

inline constexpr ConvCudaKernels kHostConvKernels = {
    .forward = ConvForwardOnHost<false>, .backward = ConvBackwardOnHost<false>};
inline constexpr ConvCudaKernels kReversedConvKernels = {
    .forward = ConvForwardOnHost<true>, .backward = ConvBackwardOnHost<true>};

/// The same through the interface of the kernels for CPUs.
inline void RunCudaForward(const ConvForwardCall& call) {
  const ConvSizes& sizes = call.sizes;
  const std::ptrdiff_t in =
      call.first * sizes.in_channels * sizes.height * sizes.width;
  const std::ptrdiff_t out = call.first * sizes.out_channels *
                             sizes.output_height * sizes.output_width;
  const ConvForwardJob job = {
      .sizes = sizes,
      .images = call.last - call.first,
      .data = {.input = call.input + in,
               .weight = call.weight,
               .bias = call.bias,
               .output = call.output + out,
               .kept = call.kept != nullptr ? call.kept + out : nullptr}};
  ConvForwardOnHost<false>(&job, nullptr);
}

inline void RunCudaBackward(const ConvBackwardCall& call) {
  const ConvSizes& sizes = call.sizes;
  const std::ptrdiff_t in =
      call.first * sizes.in_channels * sizes.height * sizes.width;
  const std::ptrdiff_t out = call.first * sizes.out_channels *
                             sizes.output_height * sizes.output_width;
  std::vector<float> weight(static_cast<std::size_t>(
      sizes.out_channels * sizes.in_channels * sizes.kernel * sizes.kernel));
  std::vector<float> bias(static_cast<std::size_t>(sizes.out_channels));
  const ConvBackwardJob job = {
      .sizes = sizes,
      .images = call.last - call.first,
      .data = {
          .input = call.input + in,
          .weight = call.weight,
          .kept = call.kept != nullptr ? call.kept + out : nullptr,
          .grad_output = call.grad_output + out,
          .grad_input =
              call.grad_input != nullptr ? call.grad_input + in : nullptr,
          .grad_weight = call.grad_weight != nullptr ? weight.data() : nullptr,
          .grad_bias = call.grad_bias != nullptr ? bias.data() : nullptr}};
  ConvBackwardOnHost<false>(&job, nullptr);
  // On CPUs, gradients are added to.
  const auto add = [](const std::vector<float>& from, float* to) {
    if (to == nullptr) return;
    std::transform(from.begin(), from.end(), to, to, std::plus<>());
  };
  add(weight, call.grad_weight);
  add(bias, call.grad_bias);
}

inline constexpr ConvKernels kCudaConvKernels = {.name = "cuda",
                                                 .images_per_block = 1,
                                                 .forward = RunCudaForward,
                                                 .backward = RunCudaBackward};

}  // namespace dtrain

#pragma once

#include <cstdint>

#include "engine/base/api.h"
#include "engine/train/torch_modules.h"

namespace dtrain {

struct ConvReluPoolOptions {
  std::int64_t in = 1;  // channels
  std::int64_t out = 1;
  std::int64_t kernel = 1;   // as high as wide
  std::int64_t padding = 0;  // zeros on each of the four sides
  bool bias = true;
  bool own_kernels = true;  // false: LibTorch's operators, always
};

/// A convolution of stride 1, ReLU, and max pooling of 2×2 with stride 2 as one
/// layer. Its parameters are named, shaped and drawn as those of the
/// torch::nn::Conv2d that it stands for, so that state dicts fit both. For
/// float32 on CPUs it has kernels of its own, several times as fast as
/// LibTorch's where channels are few; all else (a GPU, other types and memory
/// formats, autocast, a gradient of a gradient) LibTorch's operators do. Make
/// it with std::make_shared.
///
/// What it computes is what those operators compute, to rounding. Gradients of
/// the parameters are rounded otherwise with another number of threads, but
/// always alike with the same.
class DTRAIN_API ConvReluPool final : public torch::nn::Module {
 public:
  /// Throws c10::Error for channels below 1.
  explicit ConvReluPool(const ConvReluPoolOptions& options);

  /// [samples, out, height, width] of `images` [samples, in, height, width];
  /// an odd last row or column is not pooled. Throws Error(kUsage) if nothing
  /// would be left of an image.
  torch::Tensor forward(const torch::Tensor& images);

 private:
  bool KernelsTake(const torch::Tensor& images) const;

  const ConvReluPoolOptions options_;
  torch::Tensor weight_;
  torch::Tensor bias_;
};

}  // namespace dtrain

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
  bool own_kernels = true;  // false: always LibTorch's operators
};

/// A convolution of stride 1, ReLU, and 2×2 max pooling of stride 2 as one
/// layer. Its parameters have the names, shapes and initial values of the
/// torch::nn::Conv2d that it replaces, so that state dicts fit both. For
/// float32 on CPUs it uses dtrain's kernels, several times as fast as
/// LibTorch's for few channels; everything else (a GPU, other types and memory
/// formats, autocast, second derivatives) uses LibTorch's operators. Create it
/// with std::make_shared.
///
/// On a GPU, DTRAIN_CUDA_CONV=1 in the environment selects dtrain's CUDA
/// kernels, for float32 as on CPUs; no GPU has run them yet.
///
/// Results equal those of LibTorch's operators up to rounding. The rounding of
/// the parameters' gradients depends on the number of threads of a CPU, and on
/// nothing else.
class DTRAIN_API ConvReluPool final : public torch::nn::Module {
 public:
  /// Throws c10::Error for channels below 1.
  explicit ConvReluPool(const ConvReluPoolOptions& options);

  /// Returns [samples, out, height, width] of `images` [samples, in, height,
  /// width]; an odd last row or column is not pooled. Throws Error(kUsage) if
  /// the output would be empty.
  torch::Tensor forward(const torch::Tensor& images);

 private:
  bool KernelsTake(const torch::Tensor& images) const;

  const ConvReluPoolOptions options_;
  torch::Tensor weight_;
  torch::Tensor bias_;
};

}  // namespace dtrain

#pragma once

#include <torch/types.h>

#include "engine/base/api.h"
#include "engine/train/torch_modules.h"

namespace dtrain {

/// Returns relu(linear(`x`)) for `x` [samples, features]. On a GPU product,
/// bias and ReLU are one kernel (FusedLinearRelu), except in autocast; on CPUs
/// they are LibTorch's operations.
DTRAIN_API torch::Tensor LinearRelu(torch::nn::Linear& linear,
                                    const torch::Tensor& x);

/// LinearRelu as one operation, on any device: `x` [samples, in], `weight`
/// [out, in], `bias` [out]. Equal to LibTorch's operations to the bit on CPUs,
/// and up to rounding on a GPU.
DTRAIN_API torch::Tensor FusedLinearRelu(const torch::Tensor& x,
                                         const torch::Tensor& weight,
                                         const torch::Tensor& bias);

}  // namespace dtrain

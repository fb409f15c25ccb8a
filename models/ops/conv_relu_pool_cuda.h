#pragma once

#include <cstdint>

#include <torch/types.h>

#include "engine/base/api.h"

namespace dtrain {

struct ConvCudaKernels;

/// Environment variable that, if it is 1, makes ConvReluPool use the CUDA
/// kernels on a GPU.
inline constexpr char kCudaConvVariable[] = "DTRAIN_CUDA_CONV";

/// The kernels of libdtrain_trial_cuda.so; null if it is not loaded or was
/// built without nvcc.
DTRAIN_API const ConvCudaKernels* FindConvCudaKernels();

/// ConvReluPool by `kernels`, which must be able to read the tensors and must
/// live as long as the gradients are needed. The tensors are float32 and
/// contiguous; `bias` may be undefined. Throws Error(kUsage) if the output
/// would be empty.
DTRAIN_API torch::Tensor ConvReluPoolByCuda(const torch::Tensor& images,
                                            const torch::Tensor& weight,
                                            const torch::Tensor& bias,
                                            std::int64_t padding,
                                            const ConvCudaKernels& kernels);

}  // namespace dtrain

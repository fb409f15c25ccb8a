#pragma once

#include <torch/types.h>

#include "engine/base/api.h"

namespace dtrain {

struct CrossEntropyKernels;

/// Mean cross entropy of the softmax of `logits` [samples, classes] and
/// `target` int64 [samples], as one operation with its own forward and
/// backward: d/dlogits = (softmax − one-hot)/samples. Equivalent to
/// torch::nn::functional::cross_entropy; an example of an operation that
/// LibTorch lacks (docs/xception.md). Differentiable once.
torch::Tensor SoftmaxCrossEntropy(const torch::Tensor& logits,
                                  const torch::Tensor& target);

/// Loss and accuracy of a batch: scalars on the device of the logits.
struct LossAndAccuracy {
  torch::Tensor loss;      // as CrossEntropy
  torch::Tensor accuracy;  // as Accuracy, without a gradient
};

/// torch::nn::functional::cross_entropy. On a GPU, loss and accuracy of up to
/// kMaxFusedLogits logits in float32 or autocast are one kernel, and their
/// gradient is another, differentiable once; everything else is LibTorch's.
DTRAIN_API torch::Tensor CrossEntropy(const torch::Tensor& logits,
                                      const torch::Tensor& target);
DTRAIN_API LossAndAccuracy CrossEntropyAndAccuracy(const torch::Tensor& logits,
                                                   const torch::Tensor& target);

/// Computes the loss by `kernels`, which must be able to read the tensors and
/// must live as long as the gradient is needed. `logits`: float32.
DTRAIN_API LossAndAccuracy
FusedCrossEntropy(const torch::Tensor& logits, const torch::Tensor& target,
                  const CrossEntropyKernels& kernels);

/// The kernels of libdtrain_trial_cuda.so; null if it is not loaded or was
/// built without nvcc.
DTRAIN_API const CrossEntropyKernels* FindCrossEntropyKernels();

}  // namespace dtrain

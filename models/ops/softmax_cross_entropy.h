#pragma once

#include <torch/types.h>

namespace dtrain {

/// Mean cross entropy of the softmax of `logits` [samples, classes] and
/// `target` int64 [samples], as one operation with its own forward and
/// backward: d/dlogits = (softmax − one-hot)/samples. Equivalent to
/// torch::nn::functional::cross_entropy; an example of an operation that
/// LibTorch lacks (docs/xception.md). Differentiable once.
torch::Tensor SoftmaxCrossEntropy(const torch::Tensor& logits,
                                  const torch::Tensor& target);

}  // namespace dtrain

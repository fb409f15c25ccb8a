#pragma once

#include <torch/types.h>

namespace dtrain {

/// The mean cross entropy of the softmax of `logits` [samples, classes] and
/// `target` int64 [samples], as one operation with a forward and a backward of
/// its own: d/dlogits = (softmax − one-hot)/samples. The equal of
/// torch::nn::functional::cross_entropy, and the pattern for an operation that
/// LibTorch does not have (docs/xception.md). Derives once, not twice.
torch::Tensor SoftmaxCrossEntropy(const torch::Tensor& logits,
                                  const torch::Tensor& target);

}  // namespace dtrain

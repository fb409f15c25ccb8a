#pragma once

#include <cstdint>

#include <torch/types.h>

#include "engine/base/api.h"

namespace dtrain {

/// The share of samples whose class is among the `k` largest of their logits:
/// `logits` [samples, classes], `target` int64 [samples]. A number from 0 to 1,
/// on the device of the logits. With fewer classes than `k`, all count.
DTRAIN_API torch::Tensor TopKAccuracy(const torch::Tensor& logits,
                                      const torch::Tensor& target,
                                      std::int64_t k);

/// TopKAccuracy for k = 1; of equal logits the first counts.
DTRAIN_API torch::Tensor Accuracy(const torch::Tensor& logits,
                                  const torch::Tensor& target);

}  // namespace dtrain

#pragma once

#include <torch/types.h>

namespace dtrain {

/// The GPU of these tests.
inline const torch::Device kGpu(torch::kCUDA, 0);

}  // namespace dtrain

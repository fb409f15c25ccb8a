#pragma once

#include <cstdint>

#include <torch/optim/optimizer.h>

#include "engine/train/trial_context.h"

namespace dtrain {

/// What happens to the gradients of an optimizer's parameters around a step; no
/// value comes to the host, so that none of it waits for a GPU.

/// Divides them by `count`.
void DivideGradients(torch::optim::Optimizer& optimizer, std::int64_t count);

/// Limits their common 2-norm, then each element.
void ClipGradients(torch::optim::Optimizer& optimizer, const Clip& clip);

/// Gives them back: a parameter has no gradient until the next backward pass.
void ResetGradients(torch::optim::Optimizer& optimizer);

}  // namespace dtrain

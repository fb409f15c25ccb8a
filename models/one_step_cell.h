#pragma once

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "engine/train/trial.h"

namespace dtrain {

/// MindSpore's TrainOneStepCell: one step from a loss that is already there.
/// `sens` multiplies the gradients and, unlike the scale of mixed precision, is
/// not divided out again.
class OneStepCell {
 public:
  OneStepCell(TrialContext& context, torch::optim::Optimizer& optimizer,
              double sens = 1.0)
      : context_(context), optimizer_(optimizer), sens_(sens) {}

  /// From the next step on.
  void set_sens(double sens) { sens_ = sens; }
  double sens() const { return sens_; }

  /// Backward and a step of the optimizer. `loss` may have any shape: each of
  /// its values counts. Gives the loss, detached.
  torch::Tensor Step(const torch::Tensor& loss) {
    context_.Backward(loss, torch::full_like(loss, sens_));
    context_.Step(optimizer_);
    return loss.detach();
  }

 private:
  TrialContext& context_;
  torch::optim::Optimizer& optimizer_;
  double sens_;
};

}  // namespace dtrain

#pragma once

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "engine/base/api.h"

namespace dtrain {

/// LibTorch's optimizers with a step that is one operation for all parameters
/// of a group, several times as fast where these are many and small. Options,
/// groups and state are theirs, so that checkpoints and schedules cannot tell
/// them apart; what they compute is theirs, too, to rounding. Steps with a
/// closure, and with parameters or gradients that are not dense float32 or
/// float64 in the CPU's or a GPU's memory, are the base class's own.
class DTRAIN_API FlatSgd final : public torch::optim::SGD {
 public:
  using SGD::SGD;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

class DTRAIN_API FlatAdam final : public torch::optim::Adam {
 public:
  using Adam::Adam;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

class DTRAIN_API FlatAdamW final : public torch::optim::AdamW {
 public:
  using AdamW::AdamW;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

}  // namespace dtrain

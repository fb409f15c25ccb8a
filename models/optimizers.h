#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "engine/base/api.h"
#include "engine/train/lr_schedule.h"
#include "engine/train/trial.h"

namespace dtrain {

/// Defaults of hyperparameters.
struct OptimizerDefaults {
  const char* optimizer = "sgd";
  double lr = 0.05;
  double momentum = 0.9;
  double weight_decay = 0;
};

/// Optimizer configured by the hyperparameters: `optimizer` (sgd, adam, adamw,
/// rmsprop, adagrad), `lr`, `weight_decay`; `momentum`, `nesterov` and
/// `dampening` of sgd; `betas` and `amsgrad` of adam and adamw; `alpha` of
/// rmsprop; `eps` of all but sgd. Throws InvalidHyperparameters for values that
/// PyTorch rejects.
DTRAIN_API std::shared_ptr<torch::optim::Optimizer> MakeOptimizer(
    const TrialContext& context, std::vector<torch::Tensor> parameters,
    const OptimizerDefaults& defaults = {});

/// Schedule configured by `schedule` and related hyperparameters (see
/// models/table.cc), counted in batches; `epoch_batches` is the number of
/// batches per epoch. Empty for `schedule: none`. Throws InvalidHyperparameters
/// likewise.
DTRAIN_API std::optional<LrSchedule> MakeSchedule(
    const TrialContext& context, std::int64_t epoch_batches,
    const OptimizerDefaults& defaults = {});

}  // namespace dtrain

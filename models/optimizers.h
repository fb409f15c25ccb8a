#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "engine/train/lr_schedule.h"
#include "engine/train/trial_context.h"

namespace dtrain {

/// What `lr` and `momentum` are where the hyperparameters do not say.
inline constexpr double kDefaultLr = 0.05;
inline constexpr double kDefaultMomentum = 0.9;

/// The optimizer that the hyperparameters `optimizer` (sgd, adam, adamw), `lr`,
/// `momentum` and `weight_decay` ask for. Throws InvalidHyperparameters for
/// values that make no sense.
std::shared_ptr<torch::optim::Optimizer> MakeOptimizer(
    const TrialContext& context, std::vector<torch::Tensor> parameters);

/// The schedule that `schedule` and its companions ask for (models/table.cc
/// lists them), counted in batches, of which an epoch has `epoch_batches`; none
/// for `schedule: none`. Throws InvalidHyperparameters likewise.
std::optional<LrSchedule> MakeSchedule(const TrialContext& context,
                                       std::int64_t epoch_batches);

}  // namespace dtrain

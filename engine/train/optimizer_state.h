#pragma once

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/train/trained_objects.h"

namespace dtrain {

/// "SGD", "Adam", "AdamW", "RMSprop" or "Adagrad". Throws Error(kFailed) for an
/// optimizer whose state cannot be saved, such as LBFGS.
std::string OptimizerType(const torch::optim::Optimizer& optimizer);

/// State of an optimizer: tensors called NAME/PARAMETER/SLOT, everything else
/// as JSON. LibTorch keys it by pointers, a checkpoint by names.
struct OptimizerState {
  NamedTensors tensors;
  nlohmann::json facts;
};

/// REQUIRES: `names` contains all parameters of the optimizer.
OptimizerState SaveOptimizer(const NamedOptimizer& entry,
                             const ParameterNames& names);

/// Restores the state saved by SaveOptimizer; `tensors` are those of all
/// optimizers. Restores learning rates and counters only if `resumes`, that is,
/// if the same training continues. Throws Error(kFailed) for the state of
/// another optimizer.
void LoadOptimizer(NamedOptimizer& entry, const ParameterNames& names,
                   const std::map<std::string, torch::Tensor>& tensors,
                   const nlohmann::json& facts, bool resumes);

}  // namespace dtrain

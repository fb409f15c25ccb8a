#pragma once

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/train/trained_objects.h"

namespace dtrain {

/// "SGD", "Adam", "AdamW", "RMSprop" or "Adagrad". Throws Error(kFailed) for
/// an optimizer whose state cannot be kept in a checkpoint, LBFGS among them.
std::string OptimizerType(const torch::optim::Optimizer& optimizer);

/// What an optimizer remembers: tensors called NAME/PARAMETER/SLOT, and all
/// else as JSON. LibTorch keys it by pointers, a checkpoint by names.
struct OptimizerState {
  NamedTensors tensors;
  nlohmann::json facts;
};

/// REQUIRES: `names` has all parameters of the optimizer.
OptimizerState SaveOptimizer(const NamedOptimizer& entry,
                             const ParameterNames& names);

/// Gives the optimizer the state that `SaveOptimizer` took, `tensors` of all
/// optimizers; learning rates and counters only if it `resumes` with the same
/// training. Throws Error(kFailed) if it was another optimizer's.
void LoadOptimizer(NamedOptimizer& entry, const ParameterNames& names,
                   const std::map<std::string, torch::Tensor>& tensors,
                   const nlohmann::json& facts, bool resumes);

}  // namespace dtrain

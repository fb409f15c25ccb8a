#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "engine/train/lr_schedule.h"

namespace dtrain {

struct NamedModel {
  std::string name;
  std::shared_ptr<torch::nn::Module> model;
};

struct PacedSchedule {
  LrSchedule schedule;
  SchedulePace pace;
};

struct NamedOptimizer {
  std::string name;
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  std::vector<double> initial_rates;  // by parameter group
  std::vector<PacedSchedule> schedules;
  std::int64_t steps = 0;  // taken, without those skipped
};

/// Objects that a trial added to its context; checkpoints contain them.
struct TrainedObjects {
  std::vector<NamedModel> models;
  std::vector<NamedOptimizer> optimizers;
};

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;
/// Names of parameters in the checkpoint, by identity.
using ParameterNames = std::map<const void*, std::string>;

/// Parameters and buffers of all models by their names in a checkpoint: those
/// of PyTorch's state_dict, prefixed with `NAME.` unless the model is called
/// "model". Throws Error(kFailed) for two tensors of one name.
NamedTensors CollectState(const std::vector<NamedModel>& models);

/// Names of all parameters; a tied parameter has the first of its names.
ParameterNames NameParameters(const std::vector<NamedModel>& models);

/// Parameters of all groups that have a gradient.
std::vector<torch::Tensor> ParametersWithGradient(
    const torch::optim::Optimizer& optimizer);

}  // namespace dtrain

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
  std::vector<double> initial_rates;  // of each parameter group
  std::vector<PacedSchedule> schedules;
  std::int64_t steps = 0;  // that it really took
};

/// What a trial has added to its context, and a checkpoint carries.
struct TrainedObjects {
  std::vector<NamedModel> models;
  std::vector<NamedOptimizer> optimizers;
};

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;
/// Parameters by identity, with their names in the checkpoint.
using ParameterNames = std::map<const void*, std::string>;

/// Parameters and buffers of all models by their names in a checkpoint: those
/// of PyTorch's state_dict, behind `NAME.` unless the model is called "model".
/// Throws Error(kFailed) if two get one name.
NamedTensors StateOf(const std::vector<NamedModel>& models);

/// The names of all parameters; a tied one has the first of its names.
ParameterNames NamesOf(const std::vector<NamedModel>& models);

/// The parameters of all groups that have a gradient.
std::vector<torch::Tensor> ParametersWithGradient(
    const torch::optim::Optimizer& optimizer);

/// Whether `model` is to compute with the channels of images last, by the
/// setting "on", "off" or "auto": automatically if it has two-dimensional
/// convolutions and all of them have 16 channels or more, the images' own left
/// out. Such networks are faster so, little ones are not.
bool IsChannelsLast(const std::string& setting, const torch::nn::Module& model);

/// Stores all weights of four dimensions so: LibTorch's convolutions then
/// compute so, whatever their input's format. Values and shapes stay.
void StoreChannelsLast(torch::nn::Module& model);

}  // namespace dtrain

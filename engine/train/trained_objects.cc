#include "engine/train/trained_objects.h"

#include <set>

#include <torch/types.h>

#include "engine/base/error.h"

namespace dtrain {

namespace {

std::string Prefix(const NamedModel& model) {
  return model.name == "model" ? "" : model.name + ".";
}

}  // namespace

NamedTensors CollectState(const std::vector<NamedModel>& models) {
  NamedTensors state;
  std::set<std::string> names;
  const auto add = [&](const std::string& name, const torch::Tensor& tensor) {
    if (!tensor.defined()) return;
    if (!names.insert(name).second) {
      throw Error(ErrorKind::kFailed,
                  "two tensors of the models are called '" + name +
                      "'; give the models other names when adding them");
    }
    state.emplace_back(name, tensor);
  };
  for (const NamedModel& model : models) {
    const std::string prefix = Prefix(model);
    for (const auto& entry : model.model->named_parameters()) {
      add(prefix + entry.key(), entry.value());
    }
    for (const auto& entry : model.model->named_buffers()) {
      add(prefix + entry.key(), entry.value());
    }
  }
  return state;
}

ParameterNames NameParameters(const std::vector<NamedModel>& models) {
  ParameterNames names;
  for (const NamedModel& model : models) {
    for (const auto& entry : model.model->named_parameters()) {
      names.emplace(entry.value().unsafeGetTensorImpl(),
                    Prefix(model) + entry.key());
    }
  }
  return names;
}

std::vector<torch::Tensor> ParametersWithGradient(
    const torch::optim::Optimizer& optimizer) {
  std::vector<torch::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      if (parameter.grad().defined()) parameters.push_back(parameter);
    }
  }
  return parameters;
}

}  // namespace dtrain

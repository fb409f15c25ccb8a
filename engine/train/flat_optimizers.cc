#include "engine/train/flat_optimizers.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <torch/types.h>

namespace dtrain {
namespace {

namespace optim = torch::optim;
using torch::Tensor;
using Groups = std::vector<optim::OptimizerParamGroup>;

// The operations take memory for memory, in whatever order it lies.
bool IsLike(const Tensor& tensor, const Tensor& parameter) {
  return tensor.layout() == torch::kStrided &&
         tensor.device() == parameter.device() &&
         tensor.scalar_type() == parameter.scalar_type() &&
         tensor.sizes() == parameter.sizes() &&
         tensor.strides() == parameter.strides();
}

bool IsTaken(const Tensor& parameter) {
  const bool is_float = parameter.scalar_type() == torch::kFloat ||
                        parameter.scalar_type() == torch::kDouble;
  return is_float && (parameter.is_cpu() || parameter.is_cuda()) &&
         parameter.layout() == torch::kStrided &&
         parameter.is_non_overlapping_and_dense() &&
         IsLike(parameter.grad(), parameter);
}

bool IsTaken(const optim::SGDParamState& state, const Tensor& parameter) {
  const Tensor& momentum = state.momentum_buffer();
  return !momentum.defined() || IsLike(momentum, parameter);
}

template <typename AdamState>
bool IsTaken(const AdamState& state, const Tensor& parameter) {
  const auto is_like = [&](const Tensor& tensor) {
    return tensor.defined() && IsLike(tensor, parameter);
  };
  const Tensor& largest = state.max_exp_avg_sq();
  return is_like(state.exp_avg()) && is_like(state.exp_avg_sq()) &&
         (!largest.defined() || is_like(largest));
}

// Whether the operations can step every parameter that has a gradient.
template <typename State, typename States>
bool AreTaken(const Groups& groups, const States& states) {
  for (const auto& group : groups) {
    for (const Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      if (!IsTaken(parameter)) return false;
      const auto found = states.find(parameter.unsafeGetTensorImpl());
      if (found == states.end()) continue;
      if (!IsTaken(static_cast<const State&>(*found->second), parameter)) {
        return false;
      }
    }
  }
  return true;
}

// The state of a parameter, a new one if it has none.
template <typename State, typename States>
State& StateFor(States& states, const Tensor& parameter) {
  auto& state = states[parameter.unsafeGetTensorImpl()];
  if (state == nullptr) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

// What one operation steps: tensors of one device and one type, which have
// taken the same number of steps so far as that matters.
struct Together {
  torch::Device device;
  torch::ScalarType type;
  std::int64_t steps;
  std::vector<Tensor> parameters;
  std::vector<Tensor> gradients;
  std::vector<Tensor> first_moments;
  std::vector<Tensor> second_moments;
  std::vector<Tensor> largest_moments;
};

// Nearly always there is but one.
class Togethers {
 public:
  Together& Add(const Tensor& parameter, std::int64_t steps) {
    const auto fits = [&](const Together& one) {
      return one.device == parameter.device() &&
             one.type == parameter.scalar_type() && one.steps == steps;
    };
    auto found = std::ranges::find_if(all_, fits);
    if (found == all_.end()) {
      all_.push_back({parameter.device(), parameter.scalar_type(), steps});
      found = all_.end() - 1;
    }
    found->parameters.push_back(parameter);
    found->gradients.push_back(parameter.grad());
    return *found;
  }

  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  std::vector<Together> all_;
};

// As the base classes do, no step shows in the version of a parameter: a graph
// from before may be gone back through behind it.
struct StepGuard {
  torch::NoGradGuard no_grad;
  at::AutoDispatchBelowADInplaceOrView no_version;
};

template <typename States>
void StepSgd(const optim::OptimizerParamGroup& group, States& states) {
  const auto& options = static_cast<const optim::SGDOptions&>(group.options());
  Togethers all;
  for (const Tensor& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    if (options.momentum() == 0) {
      all.Add(parameter, 0);
      continue;
    }
    Tensor& momentum =
        StateFor<optim::SGDParamState>(states, parameter).momentum_buffer();
    Together& one = all.Add(parameter, momentum.defined());
    // The first step overwrites it with the gradient.
    if (!momentum.defined()) momentum = torch::empty_like(parameter);
    one.first_moments.push_back(momentum);
  }
  for (const Together& one : all) {
    at::_fused_sgd_(one.parameters, one.gradients, one.first_moments,
                    options.weight_decay(), options.momentum(), options.lr(),
                    options.dampening(), options.nesterov(),
                    /*maximize=*/false, /*is_first_step=*/one.steps == 0);
  }
}

// at::_fused_adam_ or at::_fused_adamw_, whose parameters are the same.
using FusedAdam = void (*)(at::TensorList, at::TensorList, at::TensorList,
                           at::TensorList, at::TensorList, at::TensorList,
                           double lr, double beta1, double beta2,
                           double weight_decay, double eps, bool amsgrad,
                           bool maximize,
                           const std::optional<Tensor>& grad_scale,
                           const std::optional<Tensor>& found_inf);

template <typename State, typename Options, typename States>
void StepAdam(const optim::OptimizerParamGroup& group, States& states,
              FusedAdam step) {
  const auto& options = static_cast<const Options&>(group.options());
  Togethers all;
  for (const Tensor& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    State& state = StateFor<State>(states, parameter);
    const auto moment = [&](Tensor& tensor) -> const Tensor& {
      if (!tensor.defined()) tensor = torch::zeros_like(parameter);
      return tensor;
    };
    state.step(state.step() + 1);
    Together& one = all.Add(parameter, state.step());
    one.first_moments.push_back(moment(state.exp_avg()));
    one.second_moments.push_back(moment(state.exp_avg_sq()));
    if (!options.amsgrad()) continue;
    one.largest_moments.push_back(moment(state.max_exp_avg_sq()));
  }
  for (const Together& one : all) {
    const std::vector<Tensor> steps(
        one.parameters.size(),
        at::full({}, static_cast<double>(one.steps),
                 at::TensorOptions(one.device).dtype(torch::kFloat)));
    step(one.parameters, one.gradients, one.first_moments, one.second_moments,
         one.largest_moments, steps, options.lr(), std::get<0>(options.betas()),
         std::get<1>(options.betas()), options.weight_decay(), options.eps(),
         options.amsgrad(),
         /*maximize=*/false, /*grad_scale=*/{}, /*found_inf=*/{});
  }
}

}  // namespace

Tensor FlatSgd::step(LossClosure closure) {
  if (closure || !AreTaken<optim::SGDParamState>(param_groups_, state_)) {
    return SGD::step(std::move(closure));
  }
  const StepGuard guard;
  for (const auto& group : param_groups_) StepSgd(group, state_);
  return {};
}

Tensor FlatAdam::step(LossClosure closure) {
  using State = optim::AdamParamState;
  if (closure || !AreTaken<State>(param_groups_, state_)) {
    return Adam::step(std::move(closure));
  }
  const StepGuard guard;
  for (const auto& group : param_groups_) {
    StepAdam<State, optim::AdamOptions>(group, state_, at::_fused_adam_);
  }
  return {};
}

Tensor FlatAdamW::step(LossClosure closure) {
  using State = optim::AdamWParamState;
  if (closure || !AreTaken<State>(param_groups_, state_)) {
    return AdamW::step(std::move(closure));
  }
  const StepGuard guard;
  for (const auto& group : param_groups_) {
    StepAdam<State, optim::AdamWOptions>(group, state_, at::_fused_adamw_);
  }
  return {};
}

}  // namespace dtrain

#include "engine/train/fused_optimizers.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <torch/types.h>

// LibTorch's optimizers launch several small kernels per parameter. ATen has
// operations that step a list of tensors at once (at::_fused_sgd_,
// at::_fused_adam_, at::_fused_adamw_); torch.optim in Python uses them, the
// C++ API does not. A list must be of one device and one type, and all its
// parameters must have taken the same number of steps: ParameterLists divides
// the parameters of a group accordingly, usually into a single list.
//
// With CapturableState, learning rates and step counts are tensors that the
// operations read on the device, and a nonzero `found_inf` makes them skip the
// update. Nothing then depends on the host, and the step can be captured.

namespace dtrain {

namespace {

torch::Tensor Number(double value, torch::Device device,
                     torch::ScalarType type = torch::kFloat) {
  return torch::full({}, value, torch::TensorOptions(device).dtype(type));
}

// Type in which the fused operations read a learning rate: float on CUDA, the
// full precision of the options on the CPU.
torch::ScalarType RateType(torch::Device device) {
  return device.is_cpu() ? torch::kDouble : torch::kFloat;
}

}  // namespace

void CapturableState::UploadLearningRates(
    const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const double rate = groups[i].options().get_lr();
    if (i == rates_.size()) {
      rates_.push_back({Number(rate, device_, RateType(device_)), rate});
    } else if (rates_[i].value != rate) {
      rates_[i].tensor.fill_(rate);
      rates_[i].value = rate;
    }
  }
}

const torch::Tensor& CapturableState::Count(const torch::Tensor& parameter,
                                            std::int64_t host) {
  HeldCount& count = counts_[parameter.unsafeGetTensorImpl()];
  if (!count.tensor.defined()) {
    count.tensor = Number(static_cast<double>(host), device_);
  } else if (!count.is_valid) {
    count.tensor.fill_(static_cast<double>(host));
  }
  count.is_valid = true;
  return count.tensor;
}

bool CapturableState::RecordHostStep() {
  ++host_steps_;
  // The base class is going to count on the host, after which the counts on the
  // device are old.
  for (auto& entry : counts_) entry.second.is_valid = false;
  return !found_inf_.defined() || found_inf_.item<float>() == 0;
}

std::map<void*, std::int64_t> CapturableState::Counts() const {
  std::vector<void*> parameters;
  std::vector<torch::Tensor> counts;
  for (const auto& [parameter, count] : counts_) {
    if (!count.is_valid) continue;
    parameters.push_back(parameter);
    counts.push_back(count.tensor);
  }
  std::map<void*, std::int64_t> host;
  if (counts.empty()) return host;
  const torch::Tensor numbers = torch::stack(counts).to(torch::kCPU);
  const float* number = numbers.const_data_ptr<float>();
  for (void* parameter : parameters) {
    host[parameter] = static_cast<std::int64_t>(*number++);
  }
  return host;
}

namespace {

namespace optim = torch::optim;
using torch::Tensor;
using Groups = std::vector<optim::OptimizerParamGroup>;

// True if two tensors of one shape have the same order in memory. Strides of
// dimensions of size 1 are ignored: those of a 1x1 convolution differ between a
// weight and its gradient.
bool HasSameOrder(const Tensor& one, const Tensor& other) {
  for (std::int64_t i = 0; i < one.dim(); ++i) {
    if (one.size(i) != 1 && one.stride(i) != other.stride(i)) return false;
  }
  return true;
}

// The operations process memory element by element, in any order.
bool IsLike(const Tensor& tensor, const Tensor& parameter) {
  return tensor.layout() == torch::kStrided &&
         tensor.device() == parameter.device() &&
         tensor.scalar_type() == parameter.scalar_type() &&
         tensor.sizes() == parameter.sizes() && HasSameOrder(tensor, parameter);
}

// Returns a view of `tensor` with exactly the strides of `parameter`, because
// the operations compare them.
Tensor Aligned(const Tensor& tensor, const Tensor& parameter) {
  if (tensor.strides() == parameter.strides()) return tensor;
  return tensor.as_strided(parameter.sizes(), parameter.strides());
}

bool IsSupported(const Tensor& parameter) {
  const bool is_float = parameter.scalar_type() == torch::kFloat ||
                        parameter.scalar_type() == torch::kDouble;
  return is_float && (parameter.is_cpu() || parameter.is_cuda()) &&
         parameter.layout() == torch::kStrided &&
         parameter.is_non_overlapping_and_dense() &&
         IsLike(parameter.grad(), parameter);
}

bool IsSupported(const optim::SGDParamState& state, const Tensor& parameter) {
  const Tensor& momentum = state.momentum_buffer();
  return !momentum.defined() || IsLike(momentum, parameter);
}

template <typename AdamState>
bool IsSupported(const AdamState& state, const Tensor& parameter) {
  const auto is_like = [&](const Tensor& tensor) {
    return tensor.defined() && IsLike(tensor, parameter);
  };
  const Tensor& largest = state.max_exp_avg_sq();
  return is_like(state.exp_avg()) && is_like(state.exp_avg_sq()) &&
         (!largest.defined() || is_like(largest));
}

// True if the operations can step every parameter that has a gradient.
template <typename State, typename States>
bool AreSupported(const Groups& groups, const States& states) {
  for (const auto& group : groups) {
    for (const Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      if (!IsSupported(parameter)) return false;
      const auto found = states.find(parameter.unsafeGetTensorImpl());
      if (found == states.end()) continue;
      if (!IsSupported(static_cast<const State&>(*found->second), parameter)) {
        return false;
      }
    }
  }
  return true;
}

// State of a parameter; creates it if there is none.
template <typename State, typename States>
State& StateFor(States& states, const Tensor& parameter) {
  auto& state = states[parameter.unsafeGetTensorImpl()];
  if (state == nullptr) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

// Arguments of one operation: tensors of one device and type, whose parameters
// have taken the same number of steps, if the optimizer depends on it.
struct ParameterList {
  torch::Device device;
  torch::ScalarType type;
  std::int64_t steps;
  std::vector<Tensor> parameters;
  std::vector<Tensor> gradients;
  std::vector<Tensor> first_moments;
  std::vector<Tensor> second_moments;
  std::vector<Tensor> largest_moments;
  std::vector<Tensor> counts;  // of steps, of Adam
};

// Usually contains a single list.
class ParameterLists {
 public:
  ParameterList& Add(const Tensor& parameter, std::int64_t steps) {
    const auto fits = [&](const ParameterList& one) {
      return one.device == parameter.device() &&
             one.type == parameter.scalar_type() && one.steps == steps;
    };
    auto found = std::ranges::find_if(all_, fits);
    if (found == all_.end()) {
      all_.push_back({parameter.device(), parameter.scalar_type(), steps});
      found = all_.end() - 1;
    }
    found->parameters.push_back(parameter);
    found->gradients.push_back(Aligned(parameter.grad(), parameter));
    return *found;
  }

  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  std::vector<ParameterList> all_;
};

// Like the base classes, hides the step from the version counters of the
// parameters, so that a backward pass through an earlier graph stays possible.
struct StepGuard {
  torch::NoGradGuard no_grad;
  at::AutoDispatchBelowADInplaceOrView no_version;
};

// Last argument of an operation that steps on the device.
std::optional<Tensor> FoundInf(const CapturableState& device) {
  if (!device.found_inf().defined()) return std::nullopt;
  return device.found_inf();
}

// Buffer for a parameter's first step, which overwrites it with the gradient.
// On the device that step may be skipped, so the buffer must be zero.
Tensor FirstMomentum(const Tensor& parameter, bool is_on_device) {
  return is_on_device ? torch::zeros_like(parameter)
                      : torch::empty_like(parameter);
}

template <typename States>
void StepSgd(const optim::OptimizerParamGroup& group, States& states,
             const CapturableState& device, std::size_t index) {
  const auto& options = static_cast<const optim::SGDOptions&>(group.options());
  ParameterLists all;
  for (const Tensor& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    if (options.momentum() == 0) {
      all.Add(parameter, 0);
      continue;
    }
    Tensor& momentum =
        StateFor<optim::SGDParamState>(states, parameter).momentum_buffer();
    const bool is_first = !momentum.defined();
    if (is_first) momentum = FirstMomentum(parameter, device.is_on());
    all.Add(parameter, is_first ? 0 : 1)
        .first_moments.push_back(Aligned(momentum, parameter));
  }
  for (const ParameterList& one : all) {
    const auto step = [&](const auto& rate) {
      at::_fused_sgd_(one.parameters, one.gradients, one.first_moments,
                      options.weight_decay(), options.momentum(), rate,
                      options.dampening(), options.nesterov(),
                      /*maximize=*/false, /*is_first_step=*/
                      one.steps == 0 && !one.first_moments.empty(),
                      /*grad_scale=*/{}, FoundInf(device));
    };
    device.is_on() ? step(device.Rate(index)) : step(options.lr());
  }
}

// at::_fused_adam_ and at::_fused_adamw_, which have the same parameters.
struct AdamOperation {
  template <typename... Arguments>
  void operator()(const Arguments&... arguments) const {
    at::_fused_adam_(arguments...);
  }
};
struct AdamWOperation {
  template <typename... Arguments>
  void operator()(const Arguments&... arguments) const {
    at::_fused_adamw_(arguments...);
  }
};

// Appends the moments of a parameter's state to `one`; creates missing ones.
template <typename State, typename Options>
void AddMoments(ParameterList& one, State& state, const Options& options,
                const Tensor& parameter) {
  const auto moment = [&](Tensor& tensor) {
    if (!tensor.defined()) tensor = torch::zeros_like(parameter);
    return Aligned(tensor, parameter);
  };
  one.first_moments.push_back(moment(state.exp_avg()));
  one.second_moments.push_back(moment(state.exp_avg_sq()));
  if (!options.amsgrad()) return;
  one.largest_moments.push_back(moment(state.max_exp_avg_sq()));
}

template <typename Fused, typename Options>
void StepTogether(const ParameterList& one, const Options& options,
                  const CapturableState& device, std::size_t index) {
  const auto step = [&](const auto& rate) {
    Fused()(one.parameters, one.gradients, one.first_moments,
            one.second_moments, one.largest_moments, one.counts, rate,
            std::get<0>(options.betas()), std::get<1>(options.betas()),
            options.weight_decay(), options.eps(), options.amsgrad(),
            /*maximize=*/false, /*grad_scale=*/std::optional<Tensor>(),
            FoundInf(device));
  };
  device.is_on() ? step(device.Rate(index)) : step(options.lr());
}

// Counts the step that is about to be taken.
template <typename State>
void CountStep(ParameterList& one, State& state, const Tensor& parameter,
               CapturableState& device) {
  if (device.is_on()) {
    one.counts.push_back(device.Count(parameter, state.step()));
    return;
  }
  state.step(state.step() + 1);
  // All counts of a list are equal.
  one.counts.push_back(
      one.counts.empty()
          ? at::full({}, static_cast<double>(state.step()),
                     at::TensorOptions(one.device).dtype(torch::kFloat))
          : one.counts.front());
}

template <typename State, typename Options, typename Fused, typename States>
void StepAdam(const optim::OptimizerParamGroup& group, States& states,
              CapturableState& device, std::size_t index) {
  const auto& options = static_cast<const Options&>(group.options());
  ParameterLists all;
  for (const Tensor& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    State& state = StateFor<State>(states, parameter);
    // On the device every parameter has a count of its own, so all fit one
    // list.
    ParameterList& one = all.Add(parameter, device.is_on() ? 0 : state.step());
    CountStep(one, state, parameter, device);
    AddMoments(one, state, options, parameter);
  }
  for (const ParameterList& one : all) {
    // The operation expects the number of this step, not of the last one.
    if (device.is_on()) at::_foreach_add_(one.counts, 1);
    StepTogether<Fused>(one, options, device, index);
    // A skipped step does not count.
    if (!device.found_inf().defined()) continue;
    at::_foreach_sub_(
        one.counts,
        std::vector<Tensor>(one.counts.size(), device.found_inf().squeeze()));
  }
}

template <typename State, typename States>
void FetchAdamCounts(const CapturableState& device, States& states) {
  for (const auto& [parameter, count] : device.Counts()) {
    const auto found = states.find(parameter);
    if (found != states.end()) static_cast<State&>(*found->second).step(count);
  }
}

// Step of FusedAdam and FusedAdamW.
template <typename State, typename Options, typename Fused, typename States>
void StepAdams(const Groups& groups, States& states, CapturableState& device) {
  const StepGuard guard;
  if (device.is_on()) device.UploadLearningRates(groups);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    StepAdam<State, Options, Fused>(groups[i], states, device, i);
  }
}

}  // namespace

Tensor FusedSgd::step(LossClosure closure) {
  if (closure || !AreSupported<optim::SGDParamState>(param_groups_, state_)) {
    if (!capturable_state_.RecordHostStep()) return {};
    return SGD::step(std::move(closure));
  }
  const StepGuard guard;
  if (capturable_state_.is_on()) UploadLearningRates();
  for (std::size_t i = 0; i < param_groups_.size(); ++i) {
    StepSgd(param_groups_[i], state_, capturable_state_, i);
  }
  return {};
}

Tensor FusedAdam::step(LossClosure closure) {
  using State = optim::AdamParamState;
  if (closure || !AreSupported<State>(param_groups_, state_)) {
    DownloadStepCounts();  // the base class counts on the host
    if (!capturable_state_.RecordHostStep()) return {};
    return Adam::step(std::move(closure));
  }
  StepAdams<State, optim::AdamOptions, AdamOperation>(param_groups_, state_,
                                                      capturable_state_);
  return {};
}

void FusedAdam::DownloadStepCounts() {
  FetchAdamCounts<optim::AdamParamState>(capturable_state_, state_);
}

Tensor FusedAdamW::step(LossClosure closure) {
  using State = optim::AdamWParamState;
  if (closure || !AreSupported<State>(param_groups_, state_)) {
    DownloadStepCounts();
    if (!capturable_state_.RecordHostStep()) return {};
    return AdamW::step(std::move(closure));
  }
  StepAdams<State, optim::AdamWOptions, AdamWOperation>(param_groups_, state_,
                                                        capturable_state_);
  return {};
}

void FusedAdamW::DownloadStepCounts() {
  FetchAdamCounts<optim::AdamWParamState>(capturable_state_, state_);
}

}  // namespace dtrain

#include "engine/train/backward_update.h"

#include <algorithm>

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include "engine/train/trained_objects.h"

namespace dtrain {

class BackwardUpdate::Hook final
    : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Hook(BackwardUpdate& owner) : owner_(owner) {}

  void operator()(const torch::autograd::Variable& parameter) override {
    owner_.Update(parameter);
  }

 private:
  BackwardUpdate& owner_;
};

BackwardUpdate::BackwardUpdate(torch::optim::Optimizer& optimizer)
    : optimizer_(optimizer) {
  for (const auto& group : optimizer.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      if (!parameter.requires_grad()) continue;
      torch::autograd::impl::set_post_acc_grad_hooks(
          parameter, std::make_unique<Hook>(*this));
    }
  }
}

BackwardUpdate::~BackwardUpdate() {
  for (const auto& group : optimizer_.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      if (!parameter.requires_grad()) continue;
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
    }
  }
}

// The optimizer steps those parameters that have a gradient: this one.
void BackwardUpdate::Update(const torch::Tensor& parameter) {
  std::size_t bytes = 0;
  for (const torch::Tensor& held : ParametersWithGradient(optimizer_)) {
    bytes += held.grad().nbytes();
  }
  peak_bytes_ = std::max(peak_bytes_, bytes);
  const torch::NoGradGuard no_grad;
  optimizer_.step();
  torch::Tensor handle = parameter;
  handle.mutable_grad().reset();
}

}  // namespace dtrain

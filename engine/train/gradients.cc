#include "engine/train/gradients.h"

#include <vector>

#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>

#include "engine/train/trained_objects.h"

namespace dtrain {

namespace {

std::vector<torch::Tensor> GradientsOf(torch::optim::Optimizer& optimizer) {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : ParametersWithGradient(optimizer)) {
    gradients.push_back(parameter.grad());
  }
  return gradients;
}

}  // namespace

void DivideGradients(torch::optim::Optimizer& optimizer, std::int64_t count) {
  if (count == 1) return;
  const torch::NoGradGuard no_grad;
  const auto gradients = GradientsOf(optimizer);
  if (!gradients.empty()) at::_foreach_div_(gradients, at::Scalar(count));
}

void ClipGradients(torch::optim::Optimizer& optimizer, const Clip& clip) {
  if (!clip.norm && !clip.value) return;
  const torch::NoGradGuard no_grad;
  const auto gradients = GradientsOf(optimizer);
  if (gradients.empty()) return;
  if (clip.norm) {
    const auto norms = at::_foreach_norm(gradients, /*ord=*/2);
    const torch::Tensor total = at::linalg_vector_norm(at::stack(norms), 2);
    // As PyTorch's clip_grad_norm_: never scales up.
    const torch::Tensor scale = at::clamp_max(*clip.norm / (total + 1e-6), 1.0);
    at::_foreach_mul_(gradients, scale);
  }
  if (clip.value) {
    at::_foreach_clamp_min_(gradients, -*clip.value);
    at::_foreach_clamp_max_(gradients, *clip.value);
  }
}

void ResetGradients(torch::optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    for (torch::Tensor& parameter : group.params()) {
      parameter.mutable_grad().reset();
    }
  }
}

}  // namespace dtrain

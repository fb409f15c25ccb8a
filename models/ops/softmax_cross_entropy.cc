// Operation is made of LibTorch's functions; its backward uses that the
// gradient of the mean cross-entropy is (softmax - one-hot)/samples, which
// needs only what the forward pass has computed. FusedOperation calls dtrain's
// CUDA kernels through raw pointers, so its tensors are made contiguous first.
// CrossEntropy and CrossEntropyAndAccuracy choose between the kernels and
// LibTorch's own loss by the tensors (KernelsFor).

#include "models/ops/softmax_cross_entropy.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/data/cuda_half.h"
#include "engine/kernels/cross_entropy.h"
#include "engine/train/torch_modules.h"
#include "models/building_blocks.h"
#include "models/ops/launch.h"

namespace dtrain {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Operation : public torch::autograd::Function<Operation> {
 public:
  static torch::Tensor forward(AutogradContext* context,
                               const torch::Tensor& logits,
                               const torch::Tensor& target) {
    const torch::Tensor log_softmax = logits.log_softmax(/*dim=*/1);
    context->save_for_backward({log_softmax, target});
    return log_softmax.gather(/*dim=*/1, target.unsqueeze(1)).mean().neg();
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor& target = saved[1];
    torch::Tensor gradient = saved[0].exp();
    gradient.scatter_add_(
        /*dim=*/1, target.unsqueeze(1),
        torch::full({target.size(0), 1}, -1, gradient.options()));
    // No gradient with respect to the target.
    return {gradient.mul_(gradients[0] / target.size(0)), torch::Tensor()};
  }
};

constexpr char kKernels[] = "kernels";

class FusedOperation : public torch::autograd::Function<FusedOperation> {
 public:
  static variable_list forward(AutogradContext* context,
                               const torch::Tensor& logits,
                               const torch::Tensor& target,
                               const CrossEntropyKernels* kernels) {
    const std::int64_t rows = logits.size(0);
    const torch::Tensor loss = at::empty({}, logits.options());
    const torch::Tensor accuracy = at::empty({}, logits.options());
    const torch::Tensor saved =
        at::empty({SavedFloats(rows)}, logits.options());
    const CrossEntropyJob job = {
        .logits = logits.const_data_ptr<float>(),
        .target = target.const_data_ptr<std::int64_t>(),
        .rows = rows,
        .classes = logits.size(1),
        .loss = loss.mutable_data_ptr<float>(),
        .accuracy = accuracy.mutable_data_ptr<float>(),
        .saved = saved.mutable_data_ptr<float>()};
    Launch(kernels->forward, job, logits.device());
    context->save_for_backward({logits, target, saved});
    context->saved_data[kKernels] = reinterpret_cast<std::int64_t>(kernels);
    context->mark_non_differentiable({accuracy});
    // Or LibTorch fills a tensor with zeros, as the gradient of the accuracy.
    context->set_materialize_grads(false);
    return {loss, accuracy};
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    variable_list inputs(3);
    if (!gradients[0].defined()) return inputs;
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor& logits = saved[0];
    const torch::Tensor grad_loss = gradients[0].contiguous();
    inputs[0] = at::empty_like(logits);
    const CrossEntropyGradientJob job = {
        .logits = logits.const_data_ptr<float>(),
        .target = saved[1].const_data_ptr<std::int64_t>(),
        .rows = logits.size(0),
        .classes = logits.size(1),
        .saved = saved[2].const_data_ptr<float>(),
        .grad_loss = grad_loss.const_data_ptr<float>(),
        .grad_logits = inputs[0].mutable_data_ptr<float>()};
    const auto* kernels = reinterpret_cast<const CrossEntropyKernels*>(
        context->saved_data.at(kKernels).toInt());
    Launch(kernels->gradient, job, logits.device());
    return inputs;
  }
};

// The kernels, if they can compute this loss.
const CrossEntropyKernels* KernelsFor(const torch::Tensor& logits,
                                      const torch::Tensor& target) {
  // Autocast computes losses in float32.
  const bool is_float = logits.scalar_type() == torch::kFloat ||
                        at::autocast::is_autocast_enabled(at::kCUDA);
  const bool fits = logits.is_cuda() && logits.dim() == 2 && is_float &&
                    logits.numel() > 0 && logits.numel() <= kMaxFusedLogits &&
                    target.device() == logits.device() && target.dim() == 1 &&
                    target.size(0) == logits.size(0) &&
                    target.scalar_type() == torch::kInt64;
  return fits ? FindCrossEntropyKernels() : nullptr;
}

}  // namespace

torch::Tensor SoftmaxCrossEntropy(const torch::Tensor& logits,
                                  const torch::Tensor& target) {
  return Operation::apply(logits, target);
}

const CrossEntropyKernels* FindCrossEntropyKernels() {
  static const CrossEntropyKernels kernels = {
      .forward = FromCudaHalf<decltype(CrossEntropyKernels::forward)>(
          kCrossEntropyOnCuda),
      .gradient = FromCudaHalf<decltype(CrossEntropyKernels::gradient)>(
          kCrossEntropyGradientOnCuda)};
  return kernels.forward && kernels.gradient ? &kernels : nullptr;
}

LossAndAccuracy FusedCrossEntropy(const torch::Tensor& logits,
                                  const torch::Tensor& target,
                                  const CrossEntropyKernels& kernels) {
  const variable_list results = FusedOperation::apply(
      logits.to(torch::kFloat).contiguous(), target.contiguous(), &kernels);
  return {.loss = results[0], .accuracy = results[1]};
}

torch::Tensor CrossEntropy(const torch::Tensor& logits,
                           const torch::Tensor& target) {
  if (const auto* kernels = KernelsFor(logits, target)) {
    return FusedCrossEntropy(logits, target, *kernels).loss;
  }
  return torch::nn::functional::cross_entropy(logits, target);
}

LossAndAccuracy CrossEntropyAndAccuracy(const torch::Tensor& logits,
                                        const torch::Tensor& target) {
  if (const auto* kernels = KernelsFor(logits, target)) {
    return FusedCrossEntropy(logits, target, *kernels);
  }
  return {.loss = torch::nn::functional::cross_entropy(logits, target),
          .accuracy = Accuracy(logits.detach(), target)};
}

}  // namespace dtrain

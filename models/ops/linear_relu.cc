#include "models/ops/linear_relu.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

namespace dtrain {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The operation is cuBLASLt's product with an epilogue of bias and ReLU.
// LibTorch has no gradient for it.
class LinearReluOperation
    : public torch::autograd::Function<LinearReluOperation> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& weight,
                               const torch::Tensor& bias) {
    const torch::Tensor result = at::_addmm_activation(bias, x, weight.t());
    context->save_for_backward({x, weight, result});
    return result;
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor gradient =
        torch::threshold_backward(gradients[0], saved[2], /*threshold=*/0);
    variable_list inputs(3);
    if (context->needs_input_grad(0)) inputs[0] = gradient.mm(saved[1]);
    if (context->needs_input_grad(1)) inputs[1] = gradient.t().mm(saved[0]);
    if (context->needs_input_grad(2)) inputs[2] = gradient.sum(/*dim=*/0);
    return inputs;
  }
};

}  // namespace

torch::Tensor FusedLinearRelu(const torch::Tensor& x,
                              const torch::Tensor& weight,
                              const torch::Tensor& bias) {
  return LinearReluOperation::apply(x, weight, bias);
}

torch::Tensor LinearRelu(torch::nn::Linear& linear, const torch::Tensor& x) {
  const bool is_fused = x.is_cuda() && x.dim() == 2 && linear->bias.defined() &&
                        x.scalar_type() == linear->weight.scalar_type() &&
                        !at::autocast::is_autocast_enabled(at::kCUDA);
  return is_fused ? FusedLinearRelu(x, linear->weight, linear->bias)
                  : torch::relu(linear(x));
}

}  // namespace dtrain

#include "models/ops/softmax_cross_entropy.h"

#include <torch/csrc/autograd/custom_function.h>

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

}  // namespace

torch::Tensor SoftmaxCrossEntropy(const torch::Tensor& logits,
                                  const torch::Tensor& target) {
  return Operation::apply(logits, target);
}

}  // namespace dtrain

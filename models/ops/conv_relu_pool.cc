#include "models/ops/conv_relu_pool.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include <ATen/Parallel.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/kernels/conv.h"
#include "models/ops/intra_op.h"

namespace dtrain {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr char kPadding[] = "padding";

// Inputs of the layer; `bias` may be undefined.
struct Operands {
  Tensor images;
  Tensor weight;
  Tensor bias;
  std::int64_t padding = 0;
};

ConvShape ShapeOf(const Operands& operands) {
  return {.in_channels = operands.images.size(1),
          .height = operands.images.size(2),
          .width = operands.images.size(3),
          .out_channels = operands.weight.size(0),
          .kernel = operands.weight.size(2),
          .padding = operands.padding,
          .bias = operands.bias.defined()};
}

const float* Values(const Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

float* MutableValues(const Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<float>() : nullptr;
}

// Divides a batch into one range of whole blocks for each thread.
class Division {
 public:
  explicit Division(std::int64_t images)
      : images_(images),
        per_block_(ImagesPerBlock()),
        blocks_((images + per_block_ - 1) / per_block_),
        parts_(std::min<std::int64_t>(blocks_, at::get_num_threads())) {}

  std::int64_t parts() const { return parts_; }
  ImageRange Part(std::int64_t part) const {
    return {First(part), std::min(images_, First(part + 1))};
  }

 private:
  std::int64_t First(std::int64_t part) const {
    return blocks_ * part / parts_ * per_block_;
  }

  std::int64_t images_;
  std::int64_t per_block_;
  std::int64_t blocks_;
  std::int64_t parts_;
};

ConvScratch& ScratchOfThread() {
  thread_local ConvScratch scratch;
  return scratch;
}

Tensor Plain(const Operands& operands) {
  const Tensor convolved =
      torch::conv2d(operands.images, operands.weight, operands.bias,
                    /*stride=*/1, operands.padding);
  return torch::max_pool2d(convolved.relu(), 2);
}

// `kept` is for Backward; undefined: no gradient is needed.
Tensor Forward(const Operands& operands, const ConvShape& shape,
               const Tensor& kept) {
  const std::int64_t images = operands.images.size(0);
  const Tensor output = at::empty(
      {images, shape.out_channels, shape.output_height(), shape.output_width()},
      operands.images.options());
  const ConvForwardData data = {
      .input = Values(operands.images),
      .weight = Values(operands.weight),
      .bias = Values(operands.bias),
      .output = MutableValues(output),
      .kept = kept.defined() ? kept.mutable_data_ptr<std::uint8_t>() : nullptr};
  const Division division(images);
  ForEachPart(division.parts(), [&](std::int64_t part) {
    ConvForward(shape, data, division.Part(part), ScratchOfThread());
  });
  return output;
}

void AddTo(const Tensor& sum, const float* values) {
  if (!sum.defined()) return;
  float* sums = MutableValues(sum);
  std::transform(sums, sums + sum.numel(), values, sums, std::plus<>());
}

// Fills those of `gradients` that are defined; weight and bias must be zero.
void Backward(const Operands& operands, const Tensor& kept,
              const Tensor& grad_output, const Operands& gradients) {
  const ConvShape shape = ShapeOf(operands);
  const Division division(operands.images.size(0));
  const ConvBackwardData data = {.input = Values(operands.images),
                                 .weight = Values(operands.weight),
                                 .kept = kept.const_data_ptr<std::uint8_t>(),
                                 .grad_output = Values(grad_output),
                                 .grad_input = MutableValues(gradients.images),
                                 .grad_weight = MutableValues(gradients.weight),
                                 .grad_bias = MutableValues(gradients.bias)};
  // All parts but the first have sums of their own, weights before biases.
  const std::int64_t weights = operands.weight.numel();
  const std::int64_t row = weights + shape.out_channels;
  const Tensor sums =
      at::zeros({std::max<std::int64_t>(division.parts() - 1, 0), row});
  const auto own_sums = [&](std::int64_t part) {
    return MutableValues(sums) + (part - 1) * row;
  };
  ForEachPart(division.parts(), [&](std::int64_t part) {
    ConvBackwardData own = data;
    if (part > 0 && own.grad_weight) own.grad_weight = own_sums(part);
    if (part > 0 && own.grad_bias) own.grad_bias = own_sums(part) + weights;
    ConvBackward(shape, own, division.Part(part), ScratchOfThread());
  });
  for (std::int64_t part = 1; part < division.parts(); ++part) {
    AddTo(gradients.weight, own_sums(part));
    AddTo(gradients.bias, own_sums(part) + weights);
  }
}

// A missing bias is not an input of the operation.
bool WantsGradientOfBias(const AutogradContext& context,
                         const Operands& operands) {
  return operands.bias.defined() && context.needs_input_grad(2);
}

// Like Backward, with operators that can be differentiated again.
variable_list DifferentiableBackward(const AutogradContext& context,
                                     const Operands& operands,
                                     const Tensor& grad_output) {
  const std::array all = {operands.images, operands.weight, operands.bias};
  const std::array wants = {context.needs_input_grad(0),
                            context.needs_input_grad(1),
                            WantsGradientOfBias(context, operands)};
  variable_list wanted;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (wants[i]) wanted.push_back(all[i]);
  }
  const variable_list found = torch::autograd::grad(
      {Plain(operands)}, wanted, {grad_output}, /*retain_graph=*/true,
      /*create_graph=*/true);
  variable_list gradients(all.size() + 1);
  auto next = found.begin();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (wants[i]) gradients[i] = *next++;
  }
  return gradients;
}

class ConvReluPoolOperation
    : public torch::autograd::Function<ConvReluPoolOperation> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& images,
                        const Tensor& weight, const std::optional<Tensor>& bias,
                        std::int64_t padding) {
    const Operands operands = {images, weight, bias.value_or(Tensor()),
                               padding};
    const ConvShape shape = ShapeOf(operands);
    const auto bytes =
        static_cast<std::int64_t>(shape.KeptBytes(images.size(0)));
    const Tensor kept = at::empty({bytes}, torch::kByte);
    context->save_for_backward({images, weight, operands.bias, kept});
    context->saved_data[kPadding] = padding;
    return Forward(operands, shape, kept);
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& grad_outputs) {
    const variable_list saved = context->get_saved_variables();
    const Operands operands = {saved[0], saved[1], saved[2],
                               context->saved_data.at(kPadding).toInt()};
    if (torch::GradMode::is_enabled()) {
      return DifferentiableBackward(*context, operands, grad_outputs[0]);
    }
    Operands gradients;
    if (context->needs_input_grad(0)) {
      gradients.images = at::empty_like(operands.images);
    }
    if (context->needs_input_grad(1)) {
      gradients.weight = at::zeros_like(operands.weight);
    }
    if (WantsGradientOfBias(*context, operands)) {
      gradients.bias = at::zeros_like(operands.bias);
    }
    Backward(operands, saved[3], grad_outputs[0].contiguous(), gradients);
    // No gradient with respect to the padding.
    return {gradients.images, gradients.weight, gradients.bias, Tensor()};
  }
};

// An undefined tensor (no bias) counts.
bool IsPlainFloat(const Tensor& tensor) {
  return !tensor.defined() ||
         (tensor.is_cpu() && tensor.scalar_type() == torch::kFloat &&
          tensor.layout() == torch::kStrided && tensor.is_contiguous());
}

bool IsAutocasting() {
  return !c10::impl::tls_is_dispatch_key_excluded(
      c10::DispatchKey::AutocastCPU);
}

}  // namespace

ConvReluPool::ConvReluPool(const ConvReluPoolOptions& options)
    : options_(options) {
  // Initialised by the layer it replaces, so that a seed gives the same
  // weights.
  const torch::nn::Conv2d convolution(
      torch::nn::Conv2dOptions(options.in, options.out, options.kernel)
          .padding(options.padding)
          .bias(options.bias));
  weight_ = register_parameter("weight", convolution->weight);
  if (options.bias) bias_ = register_parameter("bias", convolution->bias);
}

Tensor ConvReluPool::forward(const Tensor& images) {
  const Operands operands = {images, weight_, bias_, options_.padding};
  if (!KernelsTake(images)) return Plain(operands);
  const ConvShape shape = ShapeOf(operands);
  CheckConvShape(shape);
  const bool learns = torch::GradMode::is_enabled() &&
                      (images.requires_grad() || weight_.requires_grad() ||
                       (bias_.defined() && bias_.requires_grad()));
  if (!learns) return Forward(operands, shape, /*kept=*/{});
  const auto bias =
      bias_.defined() ? std::optional<Tensor>(bias_) : std::nullopt;
  return ConvReluPoolOperation::apply(images, weight_, bias, options_.padding);
}

bool ConvReluPool::KernelsTake(const Tensor& images) const {
  // LibTorch handles, or rejects, other dimensions and numbers of channels.
  return options_.own_kernels && images.dim() == 4 &&
         images.size(1) == weight_.size(1) && IsPlainFloat(images) &&
         IsPlainFloat(weight_) && IsPlainFloat(bias_) && !IsAutocasting();
}

}  // namespace dtrain

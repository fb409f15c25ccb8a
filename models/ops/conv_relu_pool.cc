// Convolution, ReLU and 2x2 pooling as one operation of autograd, by dtrain's
// kernels (engine/kernels).
//
// forward chooses: the kernels take dense float32 tensors of four dimensions
// outside of autocast; everything else goes to LibTorch's operators with the
// same meaning. The kernels for CUDA are used only if a variable of the
// environment asks for them.
//
// A batch is divided into ranges of whole blocks, one for each thread, in an
// order that depends on the number of threads alone. In backward every part
// sums the gradients of weight and bias by itself, and the sums are added in
// the order of parts, so that a result has the same bits in every run with the
// same number of threads.
//
// A backward pass that must itself be differentiable recomputes the operation
// with LibTorch's operators.

#include "models/ops/conv_relu_pool.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/data/cuda_half.h"
#include "engine/kernels/conv.h"
#include "engine/kernels/conv_cuda.h"
#include "engine/train/log_line.h"
#include "models/ops/conv_relu_pool_cuda.h"
#include "models/ops/intra_op.h"
#include "models/ops/launch.h"

namespace dtrain {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr char kPadding[] = "padding";
constexpr char kKernelsOfConv[] = "kernels";

// Inputs of the layer; `bias` may be undefined. `cuda`: null for the kernels of
// CPUs.
struct Operands {
  Tensor images;
  Tensor weight;
  Tensor bias;
  std::int64_t padding = 0;
  const ConvCudaKernels* cuda = nullptr;
};

ConvShape MakeConvShape(const Operands& operands) {
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
  if (operands.cuda != nullptr) {
    const ConvForwardJob job = {
        .sizes = ToConvSizes(shape), .images = images, .data = data};
    Launch(operands.cuda->forward, job, operands.images.device());
    return output;
  }
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

// Fills those of `gradients` that are defined; on CPUs, weight and bias must be
// zero.
void Backward(const Operands& operands, const Tensor& kept,
              const Tensor& grad_output, const Operands& gradients) {
  const ConvShape shape = MakeConvShape(operands);
  const ConvBackwardData data = {.input = Values(operands.images),
                                 .weight = Values(operands.weight),
                                 .kept = kept.const_data_ptr<std::uint8_t>(),
                                 .grad_output = Values(grad_output),
                                 .grad_input = MutableValues(gradients.images),
                                 .grad_weight = MutableValues(gradients.weight),
                                 .grad_bias = MutableValues(gradients.bias)};
  if (operands.cuda != nullptr) {
    const ConvBackwardJob job = {.sizes = ToConvSizes(shape),
                                 .images = operands.images.size(0),
                                 .data = data};
    Launch(operands.cuda->backward, job, operands.images.device());
    return;
  }
  const Division division(operands.images.size(0));
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

// Images, weight and bias have gradients; padding and kernels have none.
constexpr std::size_t kInputs = 5;

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
  variable_list gradients(kInputs);
  auto next = found.begin();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (wants[i]) gradients[i] = *next++;
  }
  return gradients;
}

// Sums of CPUs are added to, those of CUDA kernels are overwritten.
Tensor GradientLike(const Tensor& parameter, const ConvCudaKernels* cuda) {
  return cuda != nullptr ? at::empty_like(parameter)
                         : at::zeros_like(parameter);
}

class ConvReluPoolOperation
    : public torch::autograd::Function<ConvReluPoolOperation> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& images,
                        const Tensor& weight, const std::optional<Tensor>& bias,
                        std::int64_t padding, const ConvCudaKernels* cuda) {
    const Operands operands = {images, weight, bias.value_or(Tensor()), padding,
                               cuda};
    const ConvShape shape = MakeConvShape(operands);
    const auto bytes =
        static_cast<std::int64_t>(shape.KeptBytes(images.size(0)));
    const Tensor kept =
        at::empty({bytes}, images.options().dtype(torch::kByte));
    context->save_for_backward({images, weight, operands.bias, kept});
    context->saved_data[kPadding] = padding;
    context->saved_data[kKernelsOfConv] = reinterpret_cast<std::int64_t>(cuda);
    return Forward(operands, shape, kept);
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& grad_outputs) {
    const variable_list saved = context->get_saved_variables();
    const Operands operands = {
        saved[0], saved[1], saved[2], context->saved_data.at(kPadding).toInt(),
        reinterpret_cast<const ConvCudaKernels*>(
            context->saved_data.at(kKernelsOfConv).toInt())};
    if (torch::GradMode::is_enabled()) {
      return DifferentiableBackward(*context, operands, grad_outputs[0]);
    }
    Operands gradients;
    if (context->needs_input_grad(0)) {
      gradients.images = at::empty_like(operands.images);
    }
    if (context->needs_input_grad(1)) {
      gradients.weight = GradientLike(operands.weight, operands.cuda);
    }
    if (WantsGradientOfBias(*context, operands)) {
      gradients.bias = GradientLike(operands.bias, operands.cuda);
    }
    Backward(operands, saved[3], grad_outputs[0].contiguous(), gradients);
    variable_list all = {gradients.images, gradients.weight, gradients.bias};
    all.resize(kInputs);
    return all;
  }
};

// An undefined tensor (no bias) counts.
bool IsPlainFloat(const Tensor& tensor, torch::Device device) {
  return !tensor.defined() ||
         (tensor.device() == device && tensor.scalar_type() == torch::kFloat &&
          tensor.layout() == torch::kStrided && tensor.is_contiguous());
}

bool IsAutocasting(torch::Device device) {
  return device.is_cuda() ? at::autocast::is_autocast_enabled(at::kCUDA)
                          : !c10::impl::tls_is_dispatch_key_excluded(
                                c10::DispatchKey::AutocastCPU);
}

// Kernels that a user asks for. No GPU has run them yet.
const ConvCudaKernels* RequestedCudaKernels() {
  const char* wanted = std::getenv(kCudaConvVariable);
  if (wanted == nullptr || std::string_view(wanted) != "1") return nullptr;
  const ConvCudaKernels* kernels = FindConvCudaKernels();
  LogLine(kernels != nullptr ? LogLevel::kInfo : LogLevel::kWarning,
          std::string(kCudaConvVariable) +
              (kernels != nullptr
                   ? " is 1: ConvReluPool uses dtrain's CUDA kernels"
                   : " is 1, but dtrain was built without nvcc and has no CUDA "
                     "kernels; ConvReluPool uses LibTorch's operators"));
  return kernels;
}

// Indices of CUDA kernels have 32 bits.
bool FitsCuda(const Tensor& images, const ConvShape& shape) {
  const std::int64_t largest = std::max(
      images.numel(), images.size(0) * shape.out_channels *
                          shape.output_height() * shape.output_width());
  return largest <= std::numeric_limits<std::int32_t>::max();
}

Tensor Apply(const Operands& operands) {
  const ConvShape shape = MakeConvShape(operands);
  const bool learns =
      torch::GradMode::is_enabled() &&
      (operands.images.requires_grad() || operands.weight.requires_grad() ||
       (operands.bias.defined() && operands.bias.requires_grad()));
  if (!learns) return Forward(operands, shape, /*kept=*/{});
  const auto bias = operands.bias.defined()
                        ? std::optional<Tensor>(operands.bias)
                        : std::nullopt;
  return ConvReluPoolOperation::apply(operands.images, operands.weight, bias,
                                      operands.padding, operands.cuda);
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
  Operands operands = {images, weight_, bias_, options_.padding};
  if (!KernelsTake(images)) return Plain(operands);
  CheckConvShape(MakeConvShape(operands));
  if (images.is_cuda()) {
    static const ConvCudaKernels* const requested = RequestedCudaKernels();
    operands.cuda = requested;
    if (requested == nullptr || !FitsCuda(images, MakeConvShape(operands))) {
      return Plain(operands);
    }
  }
  return Apply(operands);
}

bool ConvReluPool::KernelsTake(const Tensor& images) const {
  // LibTorch handles, or rejects, other dimensions and numbers of channels.
  const torch::Device device = images.device();
  return options_.own_kernels && (device.is_cpu() || device.is_cuda()) &&
         images.dim() == 4 && images.size(1) == weight_.size(1) &&
         IsPlainFloat(images, device) && IsPlainFloat(weight_, device) &&
         IsPlainFloat(bias_, device) && !IsAutocasting(device);
}

Tensor ConvReluPoolByCuda(const Tensor& images, const Tensor& weight,
                          const Tensor& bias, std::int64_t padding,
                          const ConvCudaKernels& kernels) {
  const Operands operands = {images, weight, bias, padding, &kernels};
  CheckConvShape(MakeConvShape(operands));
  return Apply(operands);
}

const ConvCudaKernels* FindConvCudaKernels() {
  static const ConvCudaKernels kernels = {
      .forward =
          FromCudaHalf<decltype(ConvCudaKernels::forward)>(kConvForwardOnCuda),
      .backward = FromCudaHalf<decltype(ConvCudaKernels::backward)>(
          kConvBackwardOnCuda)};
  return kernels.forward && kernels.backward ? &kernels : nullptr;
}

}  // namespace dtrain

#pragma once

#include <torch/nn.h>

namespace dtrain {

/// ReLU that overwrites its input.
torch::nn::ReLU InPlaceRelu();

/// What `layers`, the dense ones of AlexNet and VGG, make of `x` before the
/// last of them.
torch::Tensor ForwardBeforeLast(torch::nn::SequentialImpl& layers,
                                torch::Tensor x);

/// What the last one, a torch::nn::Linear, makes of that.
torch::Tensor ForwardLast(torch::nn::SequentialImpl& layers,
                          const torch::Tensor& x);

}  // namespace dtrain

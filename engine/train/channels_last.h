#pragma once

#include <string>

#include <torch/nn/module.h>

namespace dtrain {

/// Whether `model` is to compute with the channels of images last, by the
/// setting "on", "off" or "auto": automatically if it has two-dimensional
/// convolutions and all of them have 16 channels or more, the images' own left
/// out. Such networks are faster so, little ones are not.
bool IsChannelsLast(const std::string& setting, const torch::nn::Module& model);

/// Stores all weights of four dimensions so: LibTorch's convolutions then
/// compute so, whatever their input's format. Values and shapes stay.
void StoreChannelsLast(torch::nn::Module& model);

}  // namespace dtrain

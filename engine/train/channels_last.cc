#include "engine/train/channels_last.h"

#include <torch/types.h>

namespace dtrain {

namespace {

constexpr std::int64_t kFewChannels = 16;

bool IsOfImages(const torch::Tensor& weight) { return weight.dim() == 4; }

}  // namespace

bool IsChannelsLast(const std::string& setting,
                    const torch::nn::Module& model) {
  if (setting != "auto") return setting == "on";
  bool wide = false;
  bool first = true;
  for (const torch::Tensor& weight : model.parameters()) {
    if (!IsOfImages(weight)) continue;
    const bool has_many = weight.size(0) >= kFewChannels &&
                          (first || weight.size(1) >= kFewChannels ||
                           weight.size(1) == 1);  // of a depthwise one
    if (!has_many) return false;
    wide = true;
    first = false;
  }
  return wide;
}

void StoreChannelsLast(torch::nn::Module& model) {
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& weight : model.parameters()) {
    if (!IsOfImages(weight)) continue;
    weight.set_data(weight.contiguous(torch::MemoryFormat::ChannelsLast));
  }
}

}  // namespace dtrain

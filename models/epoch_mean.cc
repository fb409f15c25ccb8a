#include "models/epoch_mean.h"

namespace dtrain {

torch::Tensor EpochMean::Add(const torch::Tensor& value, BatchIndex index) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor number = value.detach().to(torch::kDouble);
  if (!sum_.defined()) sum_ = torch::zeros_like(number);
  sum_.add_(number);
  if (!IsLast(index)) return {};
  const torch::Tensor mean = sum_ / batches_per_epoch_;
  sum_.zero_();
  return mean;
}

void EpochMean::Load(const torch::Tensor& sum, torch::Device device) {
  sum_ = sum.defined() ? sum.to(device).clone() : sum;
}

}  // namespace dtrain

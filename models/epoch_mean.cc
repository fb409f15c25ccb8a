#include "models/epoch_mean.h"

namespace dtrain {

torch::Tensor EpochMean::Add(const torch::Tensor& value, BatchIndex index) {
  const torch::Tensor number = value.detach().to(torch::kDouble);
  sum_ = sum_.defined() ? sum_ + number : number;
  if ((index.batch + 1) % batches_per_epoch_ != 0) return {};
  const torch::Tensor mean = sum_ / batches_per_epoch_;
  sum_ = torch::Tensor();
  return mean;
}

void EpochMean::Load(const torch::Tensor& sum, torch::Device device) {
  sum_ = sum.defined() ? sum.to(device) : sum;
}

}  // namespace dtrain

#include "engine/train/device_steps.h"

namespace dtrain {

namespace {

torch::Tensor Number(double value, torch::Device device,
                     torch::ScalarType type = torch::kFloat) {
  return torch::full({}, value, torch::TensorOptions(device).dtype(type));
}

// As the fused operations read a rate: those of CUDA want a float, those of
// the CPU take the whole number that the options have.
torch::ScalarType RateType(torch::Device device) {
  return device.is_cpu() ? torch::kDouble : torch::kFloat;
}

}  // namespace

void DeviceSteps::BringRates(
    const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const double rate = groups[i].options().get_lr();
    if (i == rates_.size()) {
      rates_.push_back({Number(rate, device_, RateType(device_)), rate});
    } else if (rates_[i].value != rate) {
      rates_[i].tensor.fill_(rate);
      rates_[i].value = rate;
    }
  }
}

torch::Tensor& DeviceSteps::Count(const torch::Tensor& parameter,
                                  std::int64_t host) {
  torch::Tensor& count = counts_[parameter.unsafeGetTensorImpl()];
  if (!count.defined()) count = Number(static_cast<double>(host), device_);
  return count;
}

bool DeviceSteps::NoteHostStep() {
  ++host_steps_;
  counts_.clear();
  return !found_inf_.defined() || found_inf_.item<float>() == 0;
}

std::map<void*, std::int64_t> DeviceSteps::Counts() const {
  std::map<void*, std::int64_t> host;
  if (counts_.empty()) return host;
  std::vector<torch::Tensor> all;
  for (const auto& entry : counts_) all.push_back(entry.second);
  const torch::Tensor numbers = torch::stack(all).to(torch::kCPU);
  const float* number = numbers.const_data_ptr<float>();
  for (const auto& entry : counts_) {
    host[entry.first] = static_cast<std::int64_t>(*number++);
  }
  return host;
}

}  // namespace dtrain

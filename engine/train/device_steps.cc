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

const torch::Tensor& DeviceSteps::Count(const torch::Tensor& parameter,
                                        std::int64_t host) {
  HeldCount& count = counts_[parameter.unsafeGetTensorImpl()];
  if (!count.tensor.defined()) {
    count.tensor = Number(static_cast<double>(host), device_);
  } else if (!count.is_valid) {
    count.tensor.fill_(static_cast<double>(host));
  }
  count.is_valid = true;
  return count.tensor;
}

bool DeviceSteps::NoteHostStep() {
  ++host_steps_;
  for (auto& entry : counts_) entry.second.is_valid = false;
  return !found_inf_.defined() || found_inf_.item<float>() == 0;
}

std::map<void*, std::int64_t> DeviceSteps::Counts() const {
  std::vector<void*> parameters;
  std::vector<torch::Tensor> counts;
  for (const auto& [parameter, count] : counts_) {
    if (!count.is_valid) continue;
    parameters.push_back(parameter);
    counts.push_back(count.tensor);
  }
  std::map<void*, std::int64_t> host;
  if (counts.empty()) return host;
  const torch::Tensor numbers = torch::stack(counts).to(torch::kCPU);
  const float* number = numbers.const_data_ptr<float>();
  for (void* parameter : parameters) {
    host[parameter] = static_cast<std::int64_t>(*number++);
  }
  return host;
}

}  // namespace dtrain

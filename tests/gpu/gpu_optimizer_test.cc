// Steps that stay on the GPU.

#include <functional>

#include <gtest/gtest.h>
#include <torch/optim.h>

#include "engine/train/fused_optimizers.h"
#include "engine/train/mixed_precision.h"
#include "tests/gpu/gpu.h"

namespace dtrain {
namespace {

std::vector<torch::Tensor> Parameters() {
  torch::manual_seed(3);
  std::vector<torch::Tensor> parameters;
  for (const std::int64_t size : {1, 33, 4096, 100'000}) {
    parameters.push_back(torch::randn({size}).to(kGpu).requires_grad_());
  }
  return parameters;
}

void Train(const std::vector<torch::Tensor>& parameters,
           torch::optim::Optimizer& optimizer, int steps) {
  for (int step = 0; step < steps; ++step) {
    torch::manual_seed(100 + step);
    for (const torch::Tensor& parameter : parameters) {
      parameter.mutable_grad() = torch::randn_like(parameter.detach());
    }
    optimizer.param_groups()[0].options().set_lr(0.01 / (1 + step % 7));
    optimizer.step();
  }
}

template <typename Theirs, typename Ours, typename Options>
void ExpectTheSame(const Options& options, bool is_on_device) {
  const auto expected = Parameters();
  Theirs theirs(expected, options);
  Train(expected, theirs, 50);
  const auto parameters = Parameters();
  Ours ours(parameters, options);
  if (is_on_device) ours.capturable_state().Enable(kGpu);
  Train(parameters, ours, 50);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(torch::allclose(parameters[i], expected[i], 1e-4, 3e-6)) << i;
  }
  EXPECT_EQ(ours.capturable_state().host_steps(), 0);
}

TEST(GpuOptimizerTest, StepsAsLibTorchDoes) {
  namespace optim = torch::optim;
  for (const bool is_on_device : {false, true}) {
    ExpectTheSame<optim::SGD, FusedSgd>(
        optim::SGDOptions(0.01).momentum(0.9).weight_decay(1e-4), is_on_device);
    ExpectTheSame<optim::Adam, FusedAdam>(optim::AdamOptions(0.01),
                                          is_on_device);
    ExpectTheSame<optim::AdamW, FusedAdamW>(optim::AdamWOptions(0.01),
                                            is_on_device);
  }
}

TEST(GpuOptimizerTest, SkipsAStepIfAGradientOverflows) {
  const auto parameters = Parameters();
  FusedAdam adam(parameters, torch::optim::AdamOptions(0.01));
  adam.capturable_state().Enable(kGpu);
  LossScaler scaler(kGpu, std::nullopt);
  const torch::Tensor before = parameters[2].detach().clone();
  for (const torch::Tensor& parameter : parameters) {
    parameter.mutable_grad() = torch::full_like(
        parameter.detach(), std::numeric_limits<float>::infinity());
  }
  adam.capturable_state().SetFoundInf(scaler.UnscaleOnDevice(adam));
  adam.step();
  scaler.UpdateOnDevice();
  EXPECT_TRUE(torch::equal(parameters[2], before));
  EXPECT_EQ(scaler.scale(), 32768);
  for (const auto& [parameter, count] : adam.capturable_state().Counts()) {
    EXPECT_EQ(count, 0);
  }
}

}  // namespace
}  // namespace dtrain

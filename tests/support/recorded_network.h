#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/train/torch_modules.h"
#include "tests/support/golden.h"

namespace dtrain {

// Comparison of networks with PyTorch's results for the same weights and
// images, recorded by tests/golden/make_networks.py. Both sides compute
// identical weights and images from names and indices.

inline std::uint32_t MixBits(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7FEB352D;
  x = (x ^ (x >> 15)) * 0x846CA68B;
  return x ^ (x >> 16);
}

/// Returns float values, uniform in [−1, 1), that depend on `name`.
inline torch::Tensor NamedNoise(const std::string& name,
                                torch::IntArrayRef shape) {
  std::uint32_t seed = 2166136261;  // FNV-1a
  for (const char c : name) {
    seed = (seed ^ static_cast<unsigned char>(c)) * 16777619;
  }
  seed = MixBits(seed);
  const torch::Tensor noise = torch::empty(shape, torch::kFloat);
  auto* values = noise.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < noise.numel(); ++i) {
    const std::uint32_t bits = MixBits(seed + static_cast<std::uint32_t>(i));
    values[i] = static_cast<float>(bits / 2147483648.0 - 1);
  }
  return noise;
}

/// Fills parameters and buffers: kernels such that activations keep their size,
/// factors and variances around 1, the rest around 0.
inline void FillByName(torch::nn::Module& net) {
  const torch::NoGradGuard guard;
  const auto fill = [](const std::string& name, torch::Tensor& tensor) {
    if (!tensor.is_floating_point()) return tensor.zero_();
    const torch::Tensor noise = NamedNoise(name, tensor.sizes());
    double scale = 0.1;
    double shift = name.ends_with("running_var") || name.ends_with("weight");
    if (tensor.dim() >= 2) {
      scale = std::sqrt(6 / (static_cast<double>(tensor.numel()) /
                             static_cast<double>(tensor.size(0))));
      shift = 0;
    }
    // Computed in double without a double copy, since the largest have 400 MB.
    auto* values = noise.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < noise.numel(); ++i) {
      values[i] = static_cast<float>(values[i] * scale + shift);
    }
    return tensor.copy_(noise);
  };
  for (auto& entry : net.named_parameters()) fill(entry.key(), entry.value());
  for (auto& entry : net.named_buffers()) fill(entry.key(), entry.value());
}

inline void ExpectClose(const torch::Tensor& ours, const nlohmann::json& theirs,
                        double tolerance, const std::string& what) {
  const auto flat = ours.flatten().to(torch::kDouble).contiguous();
  const auto values = theirs.get<std::vector<double>>();
  double largest = 0;
  for (const double value : values) {
    largest = std::max(largest, std::abs(value));
  }
  ASSERT_GT(largest, 0);
  ASSERT_LE(static_cast<std::int64_t>(values.size()), flat.numel());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(flat.const_data_ptr<double>()[i], values[i],
                tolerance * largest)
        << what << ", value " << i;
  }
}

/// Returns batch `index` of a recorded training: values from 0 to 1, ten
/// classes.
inline torch::Tensor RecordedImages(int index, torch::IntArrayRef shape) {
  return (NamedNoise("batch " + std::to_string(index), shape) + 1) / 2;
}

/// Fills `net` by name and expects the recorded logits (the first 10 of each
/// sample) in evaluation and in training mode, and the recorded losses of three
/// SGD steps.
inline void ExpectAsRecorded(
    const std::string& name, torch::nn::Module& net,
    const std::function<torch::Tensor(const torch::Tensor&)>& forward) {
  const nlohmann::json recorded = ReadGolden("networks.json").at(name);
  const auto shape = recorded.at("images").get<std::vector<std::int64_t>>();
  torch::Tensor images = NamedNoise("images", shape);
  FillByName(net);
  if (recorded.at("double").get<bool>()) {
    net.to(torch::kDouble);
    images = images.to(torch::kDouble);
  }
  const auto logits = [&] { return forward(images).detach().narrow(1, 0, 10); };
  net.eval();
  {
    const torch::NoGradGuard guard;
    ExpectClose(logits(), recorded.at("eval"), 1e-4, name + " evaluating");
  }
  net.train();
  torch::manual_seed(0);  // for dropout
  std::vector<torch::Tensor> parameters = net.parameters();
  torch::optim::SGD optimizer(
      parameters,
      torch::optim::SGDOptions(1e-3).momentum(0.9).weight_decay(1e-4));
  std::vector<double> losses;
  torch::Tensor first;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const torch::Tensor output = forward(images);
    if (step == 0) first = output.detach().narrow(1, 0, 10).clone();
    const torch::Tensor target = torch::arange(shape[0], torch::kInt64);
    const torch::Tensor loss =
        torch::nn::functional::cross_entropy(output, target);
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  ExpectClose(first, recorded.at("train"), 1e-4, name + " training");
  ExpectClose(torch::tensor(losses, torch::kDouble), recorded.at("losses"),
              1e-3, name + " losses");
}

}  // namespace dtrain

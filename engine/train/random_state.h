#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>
#include <torch/types.h>

namespace dtrain {

/// Seeds LibTorch's generators of the CPU and, if it is a GPU, of `device`.
void SeedRandom(std::uint64_t seed, torch::Device device);

/// Their states, and back. Throws Error(kFailed) for what was not saved so.
nlohmann::json SaveRandomState(torch::Device device);
void LoadRandomState(const nlohmann::json& state, torch::Device device);

}  // namespace dtrain

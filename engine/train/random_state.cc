#include "engine/train/random_state.h"

#include <cstring>
#include <mutex>
#include <string>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include "engine/base/error.h"
#include "engine/base/hex.h"

namespace dtrain {

namespace {

std::string Save(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  const torch::Tensor state = generator.get_state();
  return ToHex(
      {static_cast<const std::byte*>(state.const_data_ptr()), state.nbytes()});
}

void Load(at::Generator generator, const nlohmann::json& text) {
  const auto bytes = FromHex(text.get<std::string>());
  const std::lock_guard lock(generator.mutex());
  if (!bytes || bytes->size() != generator.get_state().nbytes()) {
    throw Error(ErrorKind::kFailed,
                "the checkpoint's random state is of another LibTorch; use "
                "the one it was made with");
  }
  torch::Tensor state =
      torch::empty({static_cast<std::int64_t>(bytes->size())}, torch::kUInt8);
  std::memcpy(state.mutable_data_ptr(), bytes->data(), bytes->size());
  generator.set_state(state);
}

at::Generator GpuGenerator(torch::Device device) {
  return at::globalContext().defaultGenerator(device);
}

}  // namespace

void SeedRandom(std::uint64_t seed, torch::Device device) {
  at::Generator cpu = at::detail::getDefaultCPUGenerator();
  {
    const std::lock_guard lock(cpu.mutex());
    cpu.set_current_seed(seed);
  }
  if (!device.is_cuda()) return;
  at::Generator gpu = GpuGenerator(device);
  const std::lock_guard lock(gpu.mutex());
  gpu.set_current_seed(seed);
}

nlohmann::json SaveRandomState(torch::Device device) {
  nlohmann::json state = {{"cpu", Save(at::detail::getDefaultCPUGenerator())}};
  if (device.is_cuda()) state["cuda"] = Save(GpuGenerator(device));
  return state;
}

void LoadRandomState(const nlohmann::json& state, torch::Device device) {
  Load(at::detail::getDefaultCPUGenerator(), state.at("cpu"));
  // A trial may go on where there is no GPU, and the other way round.
  if (device.is_cuda() && state.contains("cuda")) {
    Load(GpuGenerator(device), state["cuda"]);
  }
}

}  // namespace dtrain

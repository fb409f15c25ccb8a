#include "engine/train/device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <malloc.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/cuda.h>

#include "engine/base/error.h"
#include "engine/base/hex.h"
#include "engine/base/text.h"
#include "engine/data/cuda_half.h"
#include "engine/train/gpu.h"

namespace dtrain {

namespace {

// LibTorch frees its large tensors after each step. A heap that returns them to
// the system costs a page fault for every 4 KiB of the next step.
void KeepHeapMemory() {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 2047 << 20);
  ::mallopt(M_TOP_PAD, 256 << 20);
}

// Steps can be captured on any stream but the default one.
void UseOwnStream(torch::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.exchangeStream(guard.getStreamFromGlobalPool(device));
}

// Selects deterministic algorithms, or else the fastest ones for recurring
// shapes.
void ChooseAlgorithms(const TrainerSettings& settings) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(!settings.deterministic);
  if (!settings.deterministic) return;
  context.setDeterministicCuDNN(true);
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);
  // cuBLAS is deterministic only with a fixed workspace. It reads this variable
  // when it is loaded.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

}  // namespace

torch::Device OpenDevice(const TrialSpec& spec) {
  KeepHeapMemory();
  ChooseAlgorithms(spec.settings);
  at::set_num_threads(spec.threads);
  at::set_num_interop_threads(1);
  if (spec.gpus.empty()) return torch::kCPU;
  std::vector<std::string> ordinals;
  for (const int gpu : spec.gpus) ordinals.push_back(std::to_string(gpu));
  // Kept if the parent process has set it.
  ::setenv("CUDA_VISIBLE_DEVICES", Join(ordinals, ",").c_str(),
           /*overwrite=*/0);
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*overwrite=*/0);
  if (!torch::cuda::is_available()) {
    throw Error(ErrorKind::kFailed,
                "GPU " + Join(ordinals, ", ") +
                    " cannot be used; check `nvidia-smi`, or train with "
                    "resources.slots: cpu");
  }
  at::globalContext().lazyInitDevice(torch::kCUDA);
  const torch::Device device(torch::kCUDA, 0);
  // Protects the memory of the other trials on a shared GPU.
  const auto limit = FromCudaHalf<LimitGpuMemory>(kLimitGpuMemory);
  if (spec.gpu_share < 1 && limit != nullptr) limit(spec.gpu_share);
  UseOwnStream(device);
  return device;
}

namespace {

constexpr std::size_t kMaxInFlight = 2;

}  // namespace

DeviceCopy::DeviceCopy(torch::Device device) : device_(device) {
  if (device.is_cpu()) return;
  // One stream for all copies of this process: the allocator keeps freed memory
  // by stream.
  static const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type())
                                        .getStreamFromGlobalPool(device);
  stream_ = stream;
}

Batch DeviceCopy::operator()(const Batch& batch) {
  const auto tensors = batch.tensors();
  const bool is_there =
      std::ranges::all_of(tensors, [&](const torch::Tensor& tensor) {
        return !tensor.defined() || tensor.device() == device_;
      });
  if (is_there) return batch;
  return stream_ ? CopyBeside(batch) : batch.To(device_);
}

Batch DeviceCopy::CopyBeside(const Batch& batch) {
  if (in_flight_.size() == kMaxInFlight) {
    in_flight_.front().copied.synchronize();
    in_flight_.pop_front();
  }
  const c10::impl::VirtualGuardImpl gpu(device_.type());
  const c10::Stream working = gpu.exchangeStream(*stream_);
  Batch there = batch.To(device_);
  c10::Event copied(device_.type());
  copied.record(*stream_);
  gpu.exchangeStream(working);
  copied.block(working);
  // Without this, the memory would be reused for the next copy while it is
  // still in use.
  for (const torch::Tensor& tensor : there.tensors()) {
    if (!tensor.defined()) continue;
    gpu.recordDataPtrOnStream(tensor.storage().data_ptr(), working);
  }
  in_flight_.push_back({.copied = std::move(copied), .from = batch});
  return there;
}

namespace {

// Empty if the memory cannot be read.
std::string OutOfMemory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) == nullptr) return "";
  try {
    const auto memory = ReadGpu();
    return memory ? OutOfMemoryMessage(*memory) : "";
  } catch (const c10::Error&) {
    return "";
  }
}

}  // namespace

std::string TorchMessage(const c10::Error& error) {
  if (std::string message = OutOfMemory(error); !message.empty()) {
    return message;
  }
  constexpr std::size_t kMaxLength = 1'000;
  std::string line;
  for (const std::string& part : Split(error.what_without_backtrace(), '\n')) {
    const auto start = part.find_first_not_of(" \t");
    // Source lines of LibTorch do not help its users.
    if (start == part.npos || part.starts_with("Exception raised from")) {
      continue;
    }
    if (!line.empty()) line += ' ';
    line += part.substr(start);
  }
  if (line.size() > kMaxLength) line.resize(kMaxLength);
  return line;
}

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
    throw Error(
        ErrorKind::kFailed,
        "the checkpoint's random state was written by another LibTorch; use "
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
  // A trial may resume on a machine without a GPU, and vice versa.
  if (device.is_cuda() && state.contains("cuda")) {
    Load(GpuGenerator(device), state["cuda"]);
  }
}

}  // namespace dtrain

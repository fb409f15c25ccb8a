#include "engine/train/device.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <malloc.h>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/cuda.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/data/cuda_half.h"
#include "engine/train/gpu_memory.h"

namespace dtrain {

namespace {

// LibTorch frees its large tensors after each step; a heap that gives them back
// to the system pays a page fault for every 4 KiB of the next step.
void KeepTheHeap() {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 2047 << 20);
  ::mallopt(M_TOP_PAD, 256 << 20);
}

// Steps can be captured on any stream but the default one.
void UseOwnStream(torch::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.exchangeStream(guard.getStreamFromGlobalPool(device));
}

// The same bits every time, or else the fastest algorithms for what comes again
// and again.
void ChooseAlgorithms(const TrainerSettings& settings) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(!settings.deterministic);
  if (!settings.deterministic) return;
  context.setDeterministicCuDNN(true);
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);
  // Else cuBLAS chooses among its workspaces. Read when it is opened.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

}  // namespace

torch::Device OpenDevice(const TrialSpec& spec) {
  KeepTheHeap();
  ChooseAlgorithms(spec.settings);
  at::set_num_threads(spec.threads);
  at::set_num_interop_threads(1);
  if (spec.gpus.empty()) return torch::kCPU;
  std::vector<std::string> ordinals;
  for (const int gpu : spec.gpus) ordinals.push_back(std::to_string(gpu));
  // Unless whoever started this process has already chosen.
  ::setenv("CUDA_VISIBLE_DEVICES", Join(ordinals, ",").c_str(),
           /*overwrite=*/0);
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*overwrite=*/0);
  if (!torch::cuda::is_available()) {
    throw Error(ErrorKind::kFailed,
                "GPU " + Join(ordinals, ", ") +
                    " cannot be used; look at `nvidia-smi`, or train with "
                    "resources.slots: cpu");
  }
  at::globalContext().lazyInitDevice(torch::kCUDA);
  const torch::Device device(torch::kCUDA, 0);
  // So that no trial has the memory of those it shares the GPU with.
  const auto limit = FromCudaHalf<LimitGpuMemory>(kLimitGpuMemory);
  if (spec.gpu_share < 1 && limit != nullptr) limit(spec.gpu_share);
  UseOwnStream(device);
  return device;
}

}  // namespace dtrain

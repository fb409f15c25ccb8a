// libdtrain_trial_cuda.so is there for what it links: opening it opens
// LibTorch's CUDA half, which registers itself with the CPU half. dtrain's own
// kernels are in it too, where there was a compiler for them. Opening it
// touches no GPU.

#include <cstdint>
#include <exception>
#include <optional>

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>

#include "engine/train/cuda_factories.h"
#include "engine/train/gpu.h"

namespace dtrain {

namespace allocator = c10::cuda::CUDACachingAllocator;

namespace {

at::CUDAGeneratorImpl& DefaultGenerator() {
  const at::Generator& generator = at::cuda::detail::getDefaultCUDAGenerator(0);
  return *static_cast<at::CUDAGeneratorImpl*>(
      generator.unsafeGetGeneratorImpl());
}

// Where the default generator of random numbers is.
struct RandomPlace {
  std::uint64_t seed = DefaultGenerator().current_seed();
  std::uint64_t offset = DefaultGenerator().philox_offset_per_thread();
};

class CudaStepGraph final : public StepGraph {
 public:
  void Capture(const std::function<void()>& work) override {
    // As torch.cuda.graph: nothing may be under way, and memory that is only
    // cached is of use to the graph's own pool.
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    const RandomPlace place;
    const at::cuda::MempoolId_t pool = at::cuda::graph_pool_handle();
    graph_.emplace();
    try {
      // Threads that load data may go on to allocate pinned memory meanwhile.
      graph_->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
      work();
      graph_->capture_end();
    } catch (...) {
      const std::exception_ptr failure = std::current_exception();
      Abandon(pool, place);
      std::rethrow_exception(failure);
    }
  }

  void Replay() override { graph_->replay(); }

 private:
  // LibTorch leaves stream, allocator and generator as they are in the middle
  // of a capture that fails.
  void Abandon(at::cuda::MempoolId_t pool, const RandomPlace& place) {
    try {
      graph_->capture_end();
    } catch (const c10::Error&) {
      GiveBack(pool);
    }
    graph_.reset();
    const at::Generator fresh = at::cuda::detail::createCUDAGenerator(0);
    auto* state =
        static_cast<at::CUDAGeneratorImpl*>(fresh.unsafeGetGeneratorImpl());
    state->set_current_seed(place.seed);
    state->set_philox_offset_per_thread(place.offset);
    DefaultGenerator().graphsafe_set_state(state->graphsafe_get_state());
  }

  // What capture_begin took from both allocators, and capture_end gives back
  // only after a capture that went well. Throws inside where it did so.
  static void GiveBack(at::cuda::MempoolId_t pool) {
    try {
      at::HostAllocator* host = at::getHostAllocator(at::kCUDA);
      allocator::endAllocateToPool(0, pool);
      host->end_allocate_to_pool(pool);
      allocator::releasePool(0, pool);
      host->release_pool(pool);
    } catch (const c10::Error&) {
    }
  }

  std::optional<at::cuda::CUDAGraph> graph_;
};

}  // namespace
}  // namespace dtrain

extern "C" [[gnu::visibility("default")]] dtrain::StepGraph*
DtrainMakeStepGraph() {
  return new dtrain::CudaStepGraph;
}

extern "C" [[gnu::visibility("default")]] void DtrainReadGpuMemory(
    dtrain::GpuMemory* memory) {
  const auto stats = dtrain::allocator::getDeviceStats(0);
  std::size_t free = 0;
  std::size_t total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const double share = dtrain::allocator::getMemoryFraction(0);
  // [0]: of all sizes together.
  *memory = {.total = static_cast<std::int64_t>(total),
             .free = static_cast<std::int64_t>(free),
             .reserved = stats.reserved_bytes[0].current,
             .allocated = stats.allocated_bytes[0].current,
             .peak = stats.allocated_bytes[0].peak};
  if (share < 1) {
    memory->limit =
        static_cast<std::int64_t>(static_cast<double>(total) * share);
  }
}

extern "C" [[gnu::visibility("default")]] void DtrainLimitGpuMemory(
    double share) {
  dtrain::allocator::setMemoryFraction(share, 0);
}

/// Tells a trial library's CUDA half from any other library.
extern "C" [[gnu::visibility("default")]] int DtrainCudaHalf() { return 1; }

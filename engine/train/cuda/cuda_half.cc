// CUDA half of the trial library. Loading it loads LibTorch's CUDA half, which
// registers itself with the CPU half; that is its purpose. It also contains
// dtrain's own kernels, if a compiler for them was found. Loading it touches no
// GPU.

#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

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

// Position of the default random generator.
struct RandomPlace {
  std::uint64_t seed = DefaultGenerator().current_seed();
  std::uint64_t offset = DefaultGenerator().philox_offset_per_thread();
};

GraphNodes CountNodes(cudaGraph_t graph) {
  std::size_t size = 0;
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &size));
  std::vector<cudaGraphNode_t> nodes(size);
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &size));
  GraphNodes counts;
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    C10_CUDA_CHECK(cudaGraphNodeGetType(node, &type));
    if (type == cudaGraphNodeTypeKernel) {
      ++counts.kernels;
    } else if (type == cudaGraphNodeTypeMemcpy) {
      ++counts.copies;
    } else if (type == cudaGraphNodeTypeMemset) {
      ++counts.fills;
    } else {
      ++counts.others;
    }
  }
  return counts;
}

class CudaStepGraph final : public StepGraph {
 public:
  // `nodes`: may be null. If it is not, the captured graph is kept beside the
  // executable one, to count its nodes.
  explicit CudaStepGraph(GraphNodes* nodes) : nodes_(nodes) {}

  void Capture(const std::function<void()>& work) override {
    // Required, as in torch.cuda.graph: no work may be in flight, and cached
    // memory is better used by the graph's own pool.
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    const RandomPlace place;
    const at::cuda::MempoolId_t pool = at::cuda::graph_pool_handle();
    graph_.emplace(/*keep_graph=*/nodes_ != nullptr);
    try {
      // Thread-local mode: data loading threads may allocate pinned memory
      // meanwhile.
      graph_->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
      work();
      graph_->capture_end();
    } catch (...) {
      const std::exception_ptr failure = std::current_exception();
      Abandon(pool, place);
      std::rethrow_exception(failure);
    }
    if (nodes_ == nullptr) return;
    *nodes_ = CountNodes(graph_->raw_cuda_graph());
    graph_->instantiate();
  }

  void Replay() override { graph_->replay(); }

  std::unique_ptr<StepGraph> Another() const override {
    return std::make_unique<CudaStepGraph>(/*nodes=*/nullptr);
  }

 private:
  // LibTorch does not clean up stream, allocator and generator after a failed
  // capture.
  void Abandon(at::cuda::MempoolId_t pool, const RandomPlace& place) {
    try {
      graph_->capture_end();
    } catch (const c10::Error&) {
      ReleasePool(pool);
    }
    graph_.reset();
    const at::Generator fresh = at::cuda::detail::createCUDAGenerator(0);
    auto* state =
        static_cast<at::CUDAGeneratorImpl*>(fresh.unsafeGetGeneratorImpl());
    state->set_current_seed(place.seed);
    state->set_philox_offset_per_thread(place.offset);
    DefaultGenerator().graphsafe_set_state(state->graphsafe_get_state());
  }

  // Releases what capture_begin acquired from both allocators, which
  // capture_end does only after a successful capture. Throws internally if
  // capture_end did.
  static void ReleasePool(at::cuda::MempoolId_t pool) {
    try {
      at::HostAllocator* host = at::getHostAllocator(at::kCUDA);
      allocator::endAllocateToPool(0, pool);
      host->end_allocate_to_pool(pool);
      allocator::releasePool(0, pool);
      host->release_pool(pool);
    } catch (const c10::Error&) {
    }
  }

  GraphNodes* const nodes_;
  std::optional<at::cuda::CUDAGraph> graph_;
};

}  // namespace
}  // namespace dtrain

extern "C" [[gnu::visibility("default")]] dtrain::StepGraph*
DtrainMakeStepGraph() {
  return new dtrain::CudaStepGraph(/*nodes=*/nullptr);
}

extern "C" [[gnu::visibility("default")]] dtrain::StepGraph*
DtrainMakeCountedStepGraph(dtrain::GraphNodes* nodes) {
  return new dtrain::CudaStepGraph(nodes);
}

extern "C" [[gnu::visibility("default")]] void DtrainReadGpuMemory(
    dtrain::GpuMemory* memory) {
  const auto stats = dtrain::allocator::getDeviceStats(0);
  std::size_t free = 0;
  std::size_t total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const double share = dtrain::allocator::getMemoryFraction(0);
  // [0]: all sizes together.
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

extern "C" [[gnu::visibility("default")]] void DtrainCopyToGpu(
    void* to, const void* from, std::size_t bytes, void* stream) {
  C10_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice,
                                 static_cast<cudaStream_t>(stream)));
}

/// Marker by which the CUDA half of a trial library is recognised.
extern "C" [[gnu::visibility("default")]] int DtrainCudaHalf() { return 1; }

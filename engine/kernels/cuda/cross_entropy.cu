#include <cuda_runtime.h>

#include "engine/kernels/cross_entropy.h"

namespace dtrain {
namespace {

__global__ void __launch_bounds__(kCrossEntropyThreads)
    CrossEntropyKernel(CrossEntropyJob job) {
  __shared__ CrossEntropyShared shared;
  const CudaBlock block;
  CrossEntropyForward(job, shared, block).Run();
}

__global__ void __launch_bounds__(kCrossEntropyThreads)
    GradientKernel(CrossEntropyGradientJob job) {
  CrossEntropyGradient(job, blockIdx.x, static_cast<int>(threadIdx.x));
}

}  // namespace
}  // namespace dtrain

extern "C" __attribute__((visibility("default"))) int DtrainCrossEntropy(
    const dtrain::CrossEntropyJob* job, void* stream) {
  dtrain::CrossEntropyKernel<<<1, dtrain::kCrossEntropyThreads, 0,
                               static_cast<cudaStream_t>(stream)>>>(*job);
  return static_cast<int>(cudaGetLastError());
}

extern "C" __attribute__((visibility("default"))) int
DtrainCrossEntropyGradient(const dtrain::CrossEntropyGradientJob* job,
                           void* stream) {
  dtrain::GradientKernel<<<
      static_cast<unsigned>(dtrain::CrossEntropyGradientBlocks(*job)),
      dtrain::kCrossEntropyThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      *job);
  return static_cast<int>(cudaGetLastError());
}

#include <cuda_runtime.h>

#include "engine/kernels/conv_cuda.h"

namespace dtrain {
namespace {

__global__ void __launch_bounds__(kConvThreads)
    ConvForwardKernel(ConvForwardJob job) {
  ConvForwardThread(job, blockIdx.x, static_cast<int>(threadIdx.x));
}

__global__ void __launch_bounds__(kConvThreads)
    ConvInputKernel(ConvBackwardJob job) {
  ConvInputThread(job, blockIdx.x, static_cast<int>(threadIdx.x));
}

__global__ void __launch_bounds__(kConvThreads)
    ConvParameterKernel(ConvBackwardJob job) {
  __shared__ float sums[kConvThreads];
  const CudaBlock block;
  ConvParameterBlock(job, blockIdx.x, sums, block);
}

// Launches nothing for an empty grid, which CUDA rejects.
template <typename Job>
void LaunchConv(void (*kernel)(Job), std::int64_t blocks, const Job& job,
                void* stream) {
  if (blocks == 0) return;
  kernel<<<static_cast<unsigned>(blocks), kConvThreads, 0,
           static_cast<cudaStream_t>(stream)>>>(job);
}

}  // namespace
}  // namespace dtrain

extern "C" __attribute__((visibility("default"))) int DtrainConvForward(
    const dtrain::ConvForwardJob* job, void* stream) {
  dtrain::LaunchConv(dtrain::ConvForwardKernel,
                     dtrain::ConvBlocks(dtrain::ConvForwardThreads(*job)), *job,
                     stream);
  return static_cast<int>(cudaGetLastError());
}

extern "C" __attribute__((visibility("default"))) int DtrainConvBackward(
    const dtrain::ConvBackwardJob* job, void* stream) {
  if (job->data.grad_input != nullptr) {
    dtrain::LaunchConv(dtrain::ConvInputKernel,
                       dtrain::ConvBlocks(dtrain::ConvInputThreads(*job)), *job,
                       stream);
  }
  if (job->data.grad_weight != nullptr || job->data.grad_bias != nullptr) {
    dtrain::LaunchConv(dtrain::ConvParameterKernel,
                       dtrain::ConvParameterBlocks(*job), *job, stream);
  }
  return static_cast<int>(cudaGetLastError());
}

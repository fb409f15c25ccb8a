#pragma once

#include "engine/base/host_device.h"

// The body of a CUDA kernel with barriers is a function template over its block
// of threads, so that it also runs without a GPU. `block.ForEach(work)` calls
// `work(thread)` for each thread and returns after the last call. On a GPU each
// thread calls it for itself and then waits at a barrier; in tests it is a
// loop. Threads exchange values through shared memory, between two calls of
// ForEach.

namespace dtrain {

#ifdef __CUDACC__
/// The block of the calling thread.
struct CudaBlock {
  template <typename Work>
  __host__ __device__ void ForEach([[maybe_unused]] const Work& work) const {
#ifdef __CUDA_ARCH__
    work(static_cast<int>(threadIdx.x));
    __syncthreads();
#endif
  }
};
#endif

/// Adds `values`, one for each of `threads`, a power of two; values[0] is then
/// their sum. The order of additions is fixed.
template <typename Block>
DTRAIN_HOST_DEVICE void AddUp(float* values, int threads, const Block& block) {
  for (int half = threads / 2; half > 0; half /= 2) {
    block.ForEach([&](int thread) {
      if (thread < half) values[thread] += values[thread + half];
    });
  }
}

}  // namespace dtrain

#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "engine/train/cuda_factories.h"

extern "C" [[gnu::visibility("default")]] c10d::Backend* DtrainMakeNcclBackend(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int ranks) {
  c10::cuda::set_device(0);
  auto backend =
      c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, ranks);
  return backend.release();
}

#include "engine/train/nccl_backend.h"

#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

extern "C" [[gnu::visibility("default")]] c10d::Backend* DtrainMakeNcclBackend(
    const char* meeting_file, int rank, int ranks) {
  c10::cuda::set_device(0);
  const auto store = c10::make_intrusive<c10d::FileStore>(meeting_file, ranks);
  auto backend =
      c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, ranks);
  return backend.release();
}

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/cuda/nccl.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "engine/train/cuda/nccl_version.h"
#include "engine/train/cuda_factories.h"

namespace {

void CheckNcclVersions() {
  // LibTorch's own: major, minor and patch, of 32, 16 and 16 bits.
  const std::uint64_t version = torch::cuda::nccl::version();
  const auto torch =
      static_cast<int>((version >> 32) * 10'000 +
                       (version >> 16 & 0xffff) * 100 + (version & 0xffff));
  int library = 0;
  TORCH_CHECK(ncclGetVersion(&library) == ncclSuccess,
              "NCCL does not report its version");
  const std::string mismatch =
      dtrain::NcclMismatch(NCCL_VERSION_CODE, torch, library);
  TORCH_CHECK(mismatch.empty(), mismatch);
}

}  // namespace

extern "C" [[gnu::visibility("default")]] c10d::Backend* DtrainMakeNcclBackend(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int ranks,
    std::optional<double> timeout) {
  CheckNcclVersions();
  c10::cuda::set_device(0);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  if (timeout) {
    options->timeout = std::chrono::ceil<std::chrono::milliseconds>(
        std::chrono::duration<double>(*timeout));
  }
  auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      store, rank, ranks, std::move(options));
  return backend.release();
}

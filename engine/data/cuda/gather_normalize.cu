#include <cuda_runtime.h>

#include "engine/data/gather_normalize.h"

namespace dtrain {
namespace {

constexpr int kThreads = 256;

// One block per sample: its pixels are contiguous, so accesses are coalesced.
__global__ void Gather(GatherJob job) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t sample = SampleAt(job, row);
  const std::int64_t size = job.size();
  const std::uint8_t* from = job.images + sample * size;
  float* to = job.data + row * size;
  const Placement placement = PlacementIn(job, sample);
  for (std::int64_t i = threadIdx.x; i < size; i += kThreads) {
    to[i] = GatheredNumber(job, from, placement, i);
  }
  if (threadIdx.x == 0) job.target[row] = job.labels[sample];
}

}  // namespace
}  // namespace dtrain

extern "C" __attribute__((visibility("default"))) int DtrainGatherNormalize(
    const dtrain::GatherJob* job, void* stream) {
  dtrain::Gather<<<static_cast<unsigned>(job->batch), dtrain::kThreads, 0,
                   static_cast<cudaStream_t>(stream)>>>(*job);
  return static_cast<int>(cudaGetLastError());
}

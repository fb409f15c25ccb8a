#pragma once

#include <cstdint>

namespace dtrain {

/// The most bytes that LibTorch had allocated at one time on this process's
/// first GPU.
using GpuPeakBytes = std::int64_t (*)();

/// Its name in libdtrain_trial_cuda.so.
inline constexpr char kGpuPeakBytes[] = "DtrainGpuPeakBytes";

}  // namespace dtrain

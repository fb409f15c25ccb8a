#pragma once

namespace dtrain {

/// Environment variable of a trial's process that has GPUs: their indices and
/// UUIDs, "GPU 3 (GPU-4f1c…)", for messages. The process itself sees them as 0,
/// 1, and so on.
inline constexpr const char* kGpuNamesVariable = "DTRAIN_GPU_NAMES";

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <string>

namespace dtrain {

/// In so many parts a GPU can be shared out.
inline constexpr int kQuarters = 4;

/// The file of a GPU in the slot directory. Who has the GPU for itself locks it
/// for itself, as versions did that knew no shares; who has a share locks it
/// together with others, so that those versions keep away.
inline std::string GpuFile(std::int64_t index) {
  return "gpu-" + std::to_string(index);
}

/// The file of a quarter of it, from 0 on, which only one trial has.
inline std::string QuarterFile(std::int64_t index, int quarter) {
  return GpuFile(index) + "." + std::to_string(quarter);
}

/// The file of a CPU.
inline std::string CpuFile(std::int64_t index) {
  return "cpu-" + std::to_string(index);
}

}  // namespace dtrain

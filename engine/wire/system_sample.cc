#include "engine/wire/system_sample.h"

#include <algorithm>

namespace dtrain {
namespace {

template <typename T>
void KeepGreatest(std::optional<T>& value, const std::optional<T>& other) {
  if (other) value = std::max(value.value_or(*other), *other);
}

void Add(std::optional<std::int64_t>& value,
         const std::optional<std::int64_t>& other) {
  if (other) value = value.value_or(0) + *other;
}

// Averages two values over intervals of these lengths.
void Average(std::optional<double>& value, double seconds,
             const std::optional<double>& other, double other_seconds) {
  const double sum = seconds + other_seconds;
  if (!value || !other || sum <= 0) {
    if (!value) value = other;
    return;
  }
  value = (*value * seconds + *other * other_seconds) / sum;
}

}  // namespace

void SystemSample::Merge(const SystemSample& later) {
  for (const GpuSample& gpu : later.gpus) {
    const auto found = std::ranges::find(gpus, gpu.gpu, &GpuSample::gpu);
    if (found == gpus.end()) {
      gpus.push_back(gpu);
      continue;
    }
    Average(found->percent, seconds, gpu.percent, later.seconds);
    Average(found->watts, seconds, gpu.watts, later.seconds);
    KeepGreatest(found->memory_bytes, gpu.memory_bytes);
    KeepGreatest(found->celsius, gpu.celsius);
  }
  samples += later.samples;
  seconds += later.seconds;
  cpu_seconds += later.cpu_seconds;
  processes = std::max(processes, later.processes);
  memory_bytes = std::max(memory_bytes, later.memory_bytes);
  KeepGreatest(pss_bytes, later.pss_bytes);
  Add(read_bytes, later.read_bytes);
  Add(written_bytes, later.written_bytes);
}

}  // namespace dtrain

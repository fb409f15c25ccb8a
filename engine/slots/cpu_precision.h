#pragma once

#include <string>
#include <string_view>

namespace dtrain {

struct TrainerSettings;

/// True if the CPU of this /proc/cpuinfo has instructions for `mixed_precision`
/// ("bf16" or "fp16"). Without them LibTorch converts to float and back: a step
/// of ResNet-18 took 16 times as long.
bool CpuComputesIn(const std::string& mixed_precision,
                   std::string_view cpuinfo);

/// Throws Error(kResources) if this machine's CPU has no instructions for the
/// precision that `settings` ask for.
void RequireCpuPrecision(const TrainerSettings& settings);

}  // namespace dtrain

#pragma once

#include <string>
#include <string_view>

#include "engine/config/experiment_config.h"

namespace dtrain {

/// Whether a CPU of this /proc/cpuinfo computes in `mixed_precision` ("bf16" or
/// "fp16") by instructions of its own. Without them LibTorch converts back and
/// forth: a step of ResNet-18 took 16 times as long.
bool CpuComputesIn(const std::string& mixed_precision,
                   std::string_view cpuinfo);

/// Refuses what this machine's CPU would take ages for: throws
/// Error(kResources) that says why.
void RequireCpuPrecision(const TrainerSettings& settings);

}  // namespace dtrain

#pragma once

#include <torch/types.h>

#include "engine/wire/trial_spec.h"

namespace dtrain {

/// Makes this process one that trains `spec`: allocator, threads, and the
/// device, which is the first of the visible GPUs or the CPU. Throws
/// Error(kFailed) if the trial is to have a GPU and there is none. REQUIRES:
/// called once, before any tensor is made.
torch::Device OpenDevice(const TrialSpec& spec);

}  // namespace dtrain

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/os/process.h"

namespace dtrain {

// NVIDIA's multi-process service (MPS) lets processes compute on one GPU at the
// same time, where they else take turns. CUDA uses it by itself where its
// control daemon runs; dtrain never starts or stops that. `variable` reads the
// environment that the trials have.

/// Whether the control daemon runs that a process with this environment finds:
/// in the directory CUDA_MPS_PIPE_DIRECTORY, else in the one that CUDA takes.
bool MpsRuns(const ReadVariable& variable);

/// What a process needs in its environment, besides what it has, to compute
/// under MPS with `gpu_share` of a GPU. What the user set stays.
std::vector<std::pair<std::string, std::string>> MpsVariables(
    double gpu_share, const ReadVariable& variable);

/// How to start MPS, in one line for the user whose trials share a GPU; empty
/// where they do not, where it runs and where it is not installed.
std::string MpsAdvice(double gpu_share, const ReadVariable& variable);

}  // namespace dtrain

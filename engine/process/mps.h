#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/os/process.h"

namespace dtrain {

// NVIDIA's multi-process service (MPS) lets processes compute on one GPU at the
// same time; without it they take turns. CUDA uses it whenever its control
// daemon runs. dtrain never starts or stops the daemon. `variable` reads the
// environment of the trials.

/// True if a control daemon runs that a process with this environment uses: in
/// the directory CUDA_MPS_PIPE_DIRECTORY, or else in CUDA's default.
bool MpsRuns(const ReadVariable& variable);

/// Returns the variables that a process needs in addition to compute under MPS
/// with `gpu_share` of a GPU. Variables set by the user are kept.
std::vector<std::pair<std::string, std::string>> MpsVariables(
    double gpu_share, const ReadVariable& variable);

/// Advises a user whose trials share a GPU to start MPS, in one line; empty if
/// they do not share one, or MPS runs or is not installed.
std::string MpsAdvice(double gpu_share, const ReadVariable& variable);

}  // namespace dtrain

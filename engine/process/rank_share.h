#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/slots/slots.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// How many ranks of the trial this machine has, from `trial.rank` on.
int RanksHere(const TrialSpec& trial);

/// Those of a trial's GPUs that `rank` of `ranks` of this machine has: one, or
/// all if it is the only one; none on CPU slots.
std::vector<Gpu> ShareOf(const std::vector<Gpu>& gpus, int rank, int ranks);

/// What `rank` is told of its trial, where it sees only its own GPUs.
TrialSpec SpecOfRank(const TrialSpec& trial, int rank,
                     const std::vector<Gpu>& gpus);

/// The variables by which a process sees these GPUs and no others.
std::vector<std::pair<std::string, std::string>> DeviceVariables(
    const std::vector<Gpu>& gpus);

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/clock.h"

namespace dtrain {

struct DistributedEnv;
struct ExperimentConfig;
struct GlobalOptions;

/// Parameters of `dtrain worker`, as they were typed.
struct WorkerRequest {
  std::string connect;  // HOST:PORT
  std::optional<std::int64_t> experiment;
  std::string slots;         // as resources.slots; empty: all
  std::string name;          // empty: that of this machine
  std::string job;           // empty: SLURM_JOB_ID, if it is set
  std::string until;         // a time, or a duration; empty: SLURM_JOB_END_TIME
  std::string grace;         // a duration; empty: the default
  std::string idle_timeout;  // likewise; empty: none
  std::string patience;      // likewise
};

/// Runs this machine's share of the trials of another machine's runner until
/// that is done. Returns the exit code. Throws Error(kUsage) for an invalid
/// request, and as Work.
int RunWorker(const WorkerRequest& request, const GlobalOptions& globals);

/// Likewise as the process at `place` of a fixed set, for its RANK=0. REQUIRES:
/// place.follows().
int RunRank(const DistributedEnv& place, const ExperimentConfig& config,
            const GlobalOptions& globals);

}  // namespace dtrain

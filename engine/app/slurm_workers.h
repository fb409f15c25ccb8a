#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/nodes/worker_table.h"
#include "engine/slurm/slurm.h"

namespace dtrain {

class Store;
class StoreLayout;
struct ExperimentConfig;
struct HostPort;
struct JobRequest;

/// True if the trials of the experiment run on workers that Slurm starts.
bool RunsOnSlurm(const ExperimentConfig& config);

/// Returns the time between two questions to Slurm, which is also the first
/// pause before a job replaces one that ended early, from
/// DTRAIN_SLURM_INTERVAL. Throws Error(kUsage) if that is not a duration of 100
/// ms at least.
Duration SlurmInterval();

/// True in an allocation of Slurm, whose nodes are used in place of jobs.
bool InAllocation();

/// Says that this allocation is used, and which keys of `slurm` have no effect
/// in it. REQUIRES: InAllocation().
std::string AllocationText(const ExperimentConfig& config);

/// Comment of the jobs of an experiment, by which they are found again.
std::string JobOwner(const Store& store, std::int64_t experiment);

/// Returns the job of an experiment that is not recorded yet, with EXP, HOST
/// and PORT in place of what is not known. Writes nothing.
JobRequest PlannedJob(const ExperimentConfig& config,
                      const StoreLayout& layout);

/// Throws Error(kResources) if the nodes of this allocation, or all jobs
/// together, have fewer slots than a trial takes, as far as the configuration
/// tells how many they have.
void RequireSlotsOfNodes(const ExperimentConfig& config);

/// Checks before an experiment is recorded that Slurm would accept its jobs, or
/// that this allocation has not ended, and RequireSlotsOfNodes. Throws
/// Error(kResources), in Slurm's words if it refuses them. Returns them if its
/// jobs would only have to wait for nodes; otherwise an empty text.
std::string CheckSubmission(const ExperimentConfig& config,
                            const StoreLayout& layout);

/// Returns the number of trials for which Slurm can give slots at the same
/// time, by max_jobs jobs or in this allocation, as far as the configuration
/// and Slurm's variables tell; 0 if the experiment does not run on Slurm.
std::int64_t TrialsOnSlurm(const ExperimentConfig& config);

/// Returns the maximum number of jobs that the search can fill. REQUIRES: it
/// runs on Slurm.
std::int64_t MaxJobs(const ExperimentConfig& config);

/// Returns a line for the user if searcher.max_concurrent_trials leaves jobs,
/// or slots of this allocation, without trials.
std::optional<std::string> SlotsWithoutTrials(const ExperimentConfig& config);

/// True if a runner of the experiment has submitted jobs, or was about to.
bool HadJobs(const Store& store, std::int64_t experiment);

/// A job of an experiment that has no runner.
struct LeftJob {
  std::string id;
  std::int64_t experiment = 0;
};

/// Returns jobs of this store's experiments that have no runner. Empty if this
/// machine has no Slurm, or if Slurm does not answer.
std::vector<LeftJob> FindLeftJobs(const Store& store);

/// Cancels the jobs of an earlier runner of the experiment, and returns their
/// ids. Throws Error(kResources) if Slurm does not answer.
std::vector<std::string> CancelLeftJobs(const Store& store,
                                        std::int64_t experiment);

/// Starts the source of workers for a running experiment, whose script it
/// writes: a supply of jobs, or one step in an allocation. `notice` receives
/// lines for the user, from the thread that calls Update. The jobs end with the
/// source. Throws Error.
std::unique_ptr<WorkerSource> StartSlurmWorkers(
    const ExperimentConfig& config, const Store& store, std::int64_t experiment,
    const HostPort& runner,
    std::function<void(const std::string& line)> notice);

}  // namespace dtrain

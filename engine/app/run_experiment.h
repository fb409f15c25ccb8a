#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

namespace dtrain {

class Nodes;
class Reporter;
class Store;
class StoreLayout;
struct DistributedEnv;
struct ExperimentConfig;
struct GlobalOptions;
struct RankClaim;
struct RunOptions;
struct RunResult;
struct SlotPlan;

/// Runs a recorded experiment, its trials on this machine and on workers: those
/// of `nodes`, if that is not null, or any that join, if `config` has
/// resources.listen. Workers are shut down at the end.
/// A `detached` process ignores SIGHUP. Throws as ExperimentRunner.
RunResult RunExperiment(Store& store, std::int64_t id,
                        const ExperimentConfig& config,
                        const RunOptions& options, Reporter& reporter,
                        bool detached = false, Nodes* nodes = nullptr);

/// Throws Error(kUsage) if a variable of dtrain's that a runner or a worker
/// reads later has an invalid value: for a check before anything is recorded.
void CheckVariables();

/// Throws Error(kResources) if `config` has resources.listen, and nothing can
/// listen there now: for a check before an experiment is recorded.
void RequireListening(const ExperimentConfig& config);

/// Returns the directories that a runner may let other machines read, execute
/// and write: the store, and the cache of compiled models.
std::vector<std::filesystem::path> TrialRoots(const StoreLayout& store);

/// Returns the place of this process among those of several machines that train
/// together, from the environment; nothing if it runs alone. Throws
/// Error(kUsage) for an invalid environment, and for a `config` or `detach`
/// that several machines do not support.
std::optional<DistributedEnv> FindDistributedEnv(const ExperimentConfig& config,
                                                 bool detach);

/// Returns the claim of the process at `place`.
RankClaim MakeClaim(const DistributedEnv& place, const ExperimentConfig& config,
                    const SlotPlan& slots);

/// Waits until all processes of the fixed set are connected to this one, which
/// has RANK=0; null without a place. Throws Error(kResources) if some are
/// missing after five minutes.
std::unique_ptr<Nodes> ConnectRanks(const std::optional<DistributedEnv>& place,
                                    const ExperimentConfig& config,
                                    const SlotPlan& slots,
                                    const GlobalOptions& globals);

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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
struct RunOptions;
struct RunResult;
struct SlotPlan;

/// Runs a recorded experiment, its trials on this machine and on those of
/// `nodes`, if there are any, or of workers, if `config` has resources.listen.
/// A `detached` process ignores SIGHUP. Throws as ExperimentRunner.
RunResult RunExperiment(Store& store, std::int64_t id,
                        const ExperimentConfig& config,
                        const RunOptions& options, Reporter& reporter,
                        bool detached = false, Nodes* nodes = nullptr);

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

/// Runs this process's ranks for the runner at `place` until it is done.
/// Returns the exit code. REQUIRES: place.follows().
int FollowRunner(const DistributedEnv& place, const ExperimentConfig& config,
                 const SlotPlan& slots, const GlobalOptions& globals);

/// Returns the exit code of `run`. With a place, it first waits for all
/// followers, passes them to `run`, and shuts them down afterwards; without
/// one, it passes nullptr. Throws Error(kResources) if followers are missing.
int RunOnNodes(const std::optional<DistributedEnv>& place,
               const ExperimentConfig& config, const SlotPlan& slots,
               const GlobalOptions& globals,
               const std::function<int(Nodes* nodes)>& run);

}  // namespace dtrain

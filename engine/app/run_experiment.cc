// Runs an experiment on this machine, or on several, each of which has one
// process of the same `create` or `resume`.
//
// RANK 0 is the runner. It records the experiment and owns the store; every
// other rank is a follower that starts processes of trials on its machine when
// the runner asks for them. All ranks must agree on version, configuration,
// number of ranks and devices, which is why they exchange a hash of the
// configuration first. The experiment's seed is not part of it, because the
// runner may have drawn it.

#include "engine/app/run_experiment.h"

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "engine/app/notices.h"
#include "engine/app/provenance.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/config/experiment_config.h"
#include "engine/data/data_directory.h"
#include "engine/nodes/distributed_env.h"
#include "engine/nodes/follower.h"
#include "engine/nodes/nodes.h"
#include "engine/nodes/nodes_launcher.h"
#include "engine/os/sha256.h"
#include "engine/process/local_launcher.h"
#include "engine/run/reporter.h"
#include "engine/run/runner.h"
#include "engine/slots/slots.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

// Timeout of torchrun.
constexpr Duration kGathering = std::chrono::minutes(5);

// The seed may be random and is known only to the runner.
std::string HashOf(const ExperimentConfig& config) {
  nlohmann::json effective = config.effective;
  if (effective.contains("reproducibility")) {
    effective["reproducibility"].erase("experiment_seed");
  }
  const std::string text = effective.dump();
  return Sha256Of(std::as_bytes(std::span(text)));
}

NodeIdentity IdentityOf(const ExperimentConfig& config, const SlotPlan& slots) {
  return {.version = LibraryVersions().front().second,
          .configuration = HashOf(config),
          .ranks = static_cast<int>(slots.slots_per_trial),
          .gpus = !slots.gpus.empty()};
}

// Directories that the runner may let followers read, execute and write.
std::vector<std::filesystem::path> RootsOf(const StoreLayout& store,
                                           const CheckpointConfig& config) {
  std::vector<std::filesystem::path> roots = {store.root()};
  if (!config.path.empty()) roots.emplace_back(config.path);
  const std::filesystem::path cache = CacheDirectory(ProcessVariable);
  if (!cache.empty()) roots.push_back(cache / "models");
  return roots;
}

}  // namespace

RunResult RunExperiment(Store& store, std::int64_t id,
                        const ExperimentConfig& config,
                        const RunOptions& options, Reporter& reporter,
                        bool detached, Nodes* nodes) {
  const Clock clock = Clock::System();
  ExperimentRunner runner(store, id, config, clock);
  const bool on_gpus = !runner.slots().gpus.empty();
  LocalLauncherOptions local{
      .experiment = id,
      .slots = runner.slots(),
      .layout = store.layout(),
      .host = IsCommand(config) ? FindCommandHost() : FindTrialHost(),
      .environment = config.environment.For(on_gpus),
      .inherited = runner.trials_lock(),
      .clock = clock,
      .ignore_hangup = detached};
  const std::unique_ptr<Launcher> launcher =
      nodes != nullptr ? MakeNodesLauncher(*nodes, std::move(local))
                       : MakeLocalLauncher(std::move(local));
  return runner.Run(*launcher, options, reporter);
}

std::optional<DistributedEnv> FindDistributedEnv(const ExperimentConfig& config,
                                                 bool detach) {
  const std::optional<DistributedEnv> place =
      ReadDistributedEnv(ProcessVariable);
  if (!place) return std::nullopt;
  const std::string size = SizeText(*place);
  if (std::holds_alternative<std::vector<std::string>>(config.entrypoint)) {
    throw Error(ErrorKind::kUsage,
                size +
                    ": a command runs as one process on one machine, and "
                    "starts others itself; " +
                    AloneText(*place));
  }
  if (detach) {
    throw Error(ErrorKind::kUsage,
                size +
                    ": --detach and --paused are not supported with several "
                    "machines; omit them, or " +
                    AloneText(*place));
  }
  return place;
}

int FollowRunner(const DistributedEnv& place, const ExperimentConfig& config,
                 const SlotPlan& slots, const GlobalOptions& globals) {
  const StoreLayout store = FindStore(globals);
  return Follow(
      {.env = place,
       .identity = IdentityOf(config, slots),
       .secret = SecretFile::Of(store, ProcessVariable),
       .roots = RootsOf(store, config.checkpoints),
       .launcher = {.slots = slots,
                    .layout = store,
                    .host = FindTrialHost(),
                    .environment = config.environment.For(!slots.gpus.empty())},
       .notice = [&](const std::string& line) { Say(globals, line); }});
}

int RunOnNodes(const std::optional<DistributedEnv>& place,
               const ExperimentConfig& config, const SlotPlan& slots,
               const GlobalOptions& globals,
               const std::function<int(Nodes* nodes)>& run) {
  if (!place) return run(nullptr);
  Nodes nodes(
      {.env = *place,
       .identity = IdentityOf(config, slots),
       .secret = SecretFile::Of(FindStore(globals), ProcessVariable),
       .notice = [&globals](const std::string& line) { Say(globals, line); }});
  Say(globals,
      "waiting for " + nodes.Missing() + " at " + ToString(place->runner));
  nodes.Gather(kGathering);
  const int code = run(&nodes);
  nodes.SendShutdown();
  return code;
}

}  // namespace dtrain

// Runs an experiment on this machine, and on those of workers.
//
// The runner records the experiment and owns the store; workers start processes
// of trials on their machines when it asks for them, and get from it what these
// need. With RANK and WORLD_SIZE, each of a fixed set of processes runs the
// same `create`, or RANK=0 `resume`. RANK=0 is the runner, and all must agree
// on version, configuration, number of ranks and devices before the experiment
// is recorded, which is why they send it a hash of the configuration. The
// experiment's seed is not part of it, because the runner may have drawn it.
//
// With resources.listen the runner accepts any `dtrain worker`.

#include "engine/app/run_experiment.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include <fcntl.h>

#include "engine/app/notices.h"
#include "engine/app/notifications.h"
#include "engine/app/provenance.h"
#include "engine/app/script_check.h"
#include "engine/app/script_text.h"
#include "engine/app/slurm_workers.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/data/data_directory.h"
#include "engine/nodes/distributed_env.h"
#include "engine/nodes/nodes.h"
#include "engine/nodes/nodes_launcher.h"
#include "engine/os/file_lock.h"
#include "engine/os/files.h"
#include "engine/os/installation.h"
#include "engine/os/process.h"
#include "engine/os/sha256.h"
#include "engine/process/local_launcher.h"
#include "engine/process/system_monitor.h"
#include "engine/process/trial_host.h"
#include "engine/ranks/peer_proof.h"
#include "engine/run/reported_units.h"
#include "engine/run/reporter.h"
#include "engine/run/runner.h"
#include "engine/slots/slots.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

// Workers whose runner is lost end within this time.
constexpr Duration kEarlierWorkers = std::chrono::seconds(60);
// Timeout of torchrun.
constexpr Duration kRanksPatience = std::chrono::minutes(5);

// The seed may be random and is known only to the runner.
std::string HashConfig(const ExperimentConfig& config) {
  nlohmann::json effective = config.effective;
  if (effective.contains("reproducibility")) {
    effective["reproducibility"].erase("experiment_seed");
  }
  const std::string text = effective.dump();
  return ComputeSha256(std::as_bytes(std::span(text)));
}

}  // namespace

RankClaim MakeClaim(const DistributedEnv& place, const ExperimentConfig& config,
                    const SlotPlan& slots) {
  return {.rank = place.rank,
          .world_size = place.world_size,
          .configuration = HashConfig(config),
          .ranks = static_cast<int>(slots.slots_per_trial),
          .gpus = !slots.gpus.empty()};
}

namespace {

// Returns whether the slots of workers must be GPUs; none: either.
std::optional<bool> KindOfSlots(const ResourcesConfig& resources,
                                const SlotPlan& plan) {
  using enum SlotChoice::Kind;
  if (resources.local) return !plan.gpus.empty();
  switch (resources.slots.kind) {
    case kAuto:
      return std::nullopt;
    case kNone:
    case kCpu:
      return false;
    case kGpu:
    case kMaxFree:
    case kIds:
      return true;
  }
  return std::nullopt;
}

// Waits until the workers of an earlier run have ended, which save checkpoints
// after the loss of their runner.
void AwaitEarlierWorkers(const StoreLayout& layout, std::int64_t id) {
  const auto path = layout.WorkerProbe(id);
  FileLock lock(
      UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)));
  const Clock clock = Clock::System();
  const Duration end = clock.monotonic() + kEarlierWorkers;
  while (lock && !lock.TryLock() && errno == EWOULDBLOCK) {
    if (clock.monotonic() >= end) {
      throw Error(ErrorKind::kStore,
                  "experiment " + std::to_string(id) +
                      ": workers of an earlier run still run its trials; end "
                      "these processes of 'dtrain worker', or wait for them");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

// Writes a file that workers must see, and adds it to the task.
void AddProbe(const std::filesystem::path& path, WorkerTask& task) {
  std::string text = RandomUuid() + "\n";
  WriteFileDurably(path, text);
  task.probes[path.string()] = std::move(text);
}

// Adds the files that trials need, so that a worker can check them when it
// joins.
void AddFilesOfTrials(const Store& store, const ExperimentDetail& detail,
                      const ExperimentConfig& config,
                      const std::string& library, WorkerTask& task) {
  if (!library.empty()) {
    task.library = library;
    task.library_sha256 = Sha256OfFile(library);
  }
  if (!task.command) return;
  task.context = FindContextDirectory(store.layout(), detail);
  task.words = FixedWords(config);
  const auto python = detail.provenance.find("python");
  if (python != detail.provenance.end() && python->is_object()) {
    task.python = python->dump();
  }
}

WorkerTask MakeTask(const Store& store, std::int64_t id,
                    const ExperimentConfig& config, const SlotPlan& slots,
                    const std::string& library) {
  const auto variables = [&config](bool gpus) {
    const EnvironmentVariables list = config.environment.For(gpus);
    return std::map<std::string, std::string>(list.begin(), list.end());
  };
  WorkerTask task{.experiment = id,
                  .command = IsCommand(config),
                  .slots_per_trial = config.resources.slots_per_trial,
                  .threads = slots.threads,
                  .gpus = KindOfSlots(config.resources, slots),
                  .cpu_environment = variables(false),
                  .gpu_environment = variables(true),
                  .store = store.layout().root().string(),
                  .system = config.system_metrics};
  AddProbe(store.layout().WorkerProbe(id), task);
  const auto detail = store.Experiment(id);
  if (detail) AddFilesOfTrials(store, *detail, config, library, task);
  if (detail && !detail->storage.empty()) {
    const auto storage =
        store.StorageRoot(detail->storage) / std::to_string(id);
    task.storage = storage.string();
    AddProbe(storage / "worker.probe", task);
  }
  return task;
}

// Derives the key of the experiment's workers from the secret of the store.
// Whoever has it can join this experiment, and no other.
SecretFile WriteWorkerKey(const Store& store, std::int64_t id) {
  const std::string secret =
      SecretFile::Locate(store.layout(), ProcessVariable).ReadOrMake();
  SecretFile key = SecretFile::At(store.layout().WorkerKey(id));
  key.Write(DeriveSecret(secret, "workers of experiment " + std::to_string(id) +
                                     " of store " + store.uuid()) +
            "\n");
  return key;
}

// Accepts workers for the experiment, if it is configured to.
std::unique_ptr<Nodes> AcceptWorkers(const Store& store, std::int64_t id,
                                     const ExperimentConfig& config,
                                     Reporter& reporter) {
  const auto& listen = config.resources.listen;
  if (!listen) return nullptr;
  return std::make_unique<Nodes>(Nodes::Options{
      .place = HostPort{.host = listen->host, .port = listen->port},
      .version = BuildVersion(),
      .secret = WriteWorkerKey(store, id),
      .notice = [&reporter](const std::string& line) {
        reporter.OnNotice(LogLevel::kInfo, line);
      }});
}

// Returns the address by which workers reach this machine.
HostPort PlaceOfRunner(const ListenAddress& listen, int port) {
  const bool all =
      listen.host.empty() || listen.host == "0.0.0.0" || listen.host == "::";
  return {all ? HostName() : listen.host, port};
}

// Cancels the jobs of an earlier runner, and starts those of this one.
std::unique_ptr<WorkerSource> StartWorkersOfSlurm(
    const ExperimentConfig& config, const Store& store, std::int64_t id,
    const HostPort& place, Reporter& reporter) {
  const auto notice = [&reporter](const std::string& line) {
    reporter.OnNotice(LogLevel::kInfo, line);
  };
  RequireSlotsOfNodes(config);
  if (!InAllocation()) {
    const std::vector<std::string> left = CancelLeftJobs(store, id);
    if (!left.empty()) {
      notice("canceled jobs of Slurm that an earlier run has left: " +
             Join(left, ", "));
    }
  }
  auto workers = StartSlurmWorkers(config, store, id, place, notice);
  if (InAllocation()) notice(AllocationText(config));
  return workers;
}

// Returns the command that starts a worker on another machine.
std::string WorkerCommand(const Store& store, std::int64_t id,
                          const HostPort& place) {
  return "dtrain worker --connect " + QuoteForShell(ToString(place)) +
         " --store " + QuoteForShell(store.layout().root().string()) +
         " --experiment " + std::to_string(id);
}

}  // namespace

RunResult RunExperiment(Store& store, std::int64_t id,
                        const ExperimentConfig& config,
                        const RunOptions& base_options, Reporter& reporter,
                        bool detached, Nodes* nodes) {
  const Clock clock = Clock::System();
  ExperimentRunner runner(store, id, config, clock);
  RunOptions options = base_options;
  std::optional<Notifier> notifier;
  if (config.notify) {
    notifier.emplace(store.layout(), id);
    options.send_notifications = [&notifier] { notifier->Wake(); };
  }
  const std::unique_ptr<Nodes> workers =
      AcceptWorkers(store, id, config, reporter);
  if (workers) nodes = workers.get();
  if (nodes != nullptr) {
    AwaitEarlierWorkers(store.layout(), id);
    nodes->SetTask(
        MakeTask(store, id, config, runner.slots(), base_options.library));
  }
  std::unique_ptr<WorkerSource> slurm;
  if (workers) {
    const HostPort place =
        PlaceOfRunner(*config.resources.listen, workers->port());
    if (RunsOnSlurm(config)) {
      slurm = StartWorkersOfSlurm(config, store, id, place, reporter);
    } else {
      options.notice = "to add the slots of another machine, run there: " +
                       WorkerCommand(store, id, place);
    }
  }
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
  if (config.system_metrics) local.system_period = SystemPeriod();
  WorkerHooks hooks;
  if (nodes != nullptr) {
    hooks.changed =
        [&, path = store.layout().WorkerTable(id)](const WorkerTable& table) {
          WriteWorkers(path, table);
          reporter.OnWorkers(table.Summary());
        };
    hooks.source = slurm.get();
  }
  if (const auto* words =
          std::get_if<std::vector<std::string>>(&config.entrypoint)) {
    ScriptText script = ReadScriptText(
        *words, FindContextDirectory(store.layout(), *store.Experiment(id)));
    script.imports_dtrain = false;  // the module reports what it reads
    options.may_read = [script](const std::string& name) {
      return script.MayRead(name);
    };
  }
  RunResult result;
  {
    const std::unique_ptr<Launcher> launcher =
        nodes != nullptr ? MakeNodesLauncher(*nodes, std::move(local), hooks)
                         : MakeLocalLauncher(std::move(local));
    result = runner.Run(*launcher, options, reporter);
  }
  if (nodes != nullptr) nodes->SendShutdown();
  return result;
}

void CheckVariables() {
  static_cast<void>(StopGrace());
  static_cast<void>(SystemPeriod());
  static_cast<void>(SlurmInterval());
}

void RequireListening(const ExperimentConfig& config) {
  const auto& listen = config.resources.listen;
  if (!listen) return;
  const UniqueFd listener =
      ListenForWorkers({.host = listen->host, .port = listen->port});
}

std::vector<std::filesystem::path> TrialRoots(const StoreLayout& store) {
  std::vector<std::filesystem::path> roots = {store.root()};
  const std::filesystem::path cache = CacheDirectory(ProcessVariable);
  if (!cache.empty()) roots.push_back(cache / "models");
  return roots;
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
  if (config.resources.listen) {
    throw Error(ErrorKind::kUsage,
                size +
                    ": resources.listen accepts workers on other machines "
                    "instead; unset WORLD_SIZE, or remove it");
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

std::unique_ptr<Nodes> ConnectRanks(const std::optional<DistributedEnv>& place,
                                    const ExperimentConfig& config,
                                    const SlotPlan& slots,
                                    const GlobalOptions& globals) {
  if (!place) return nullptr;
  auto nodes = std::make_unique<Nodes>(Nodes::Options{
      .place = place->runner,
      .version = BuildVersion(),
      .secret = SecretFile::Locate(FindStore(globals), ProcessVariable),
      .claim = MakeClaim(*place, config, slots),
      .all_here = place->all_here,
      .notice = [&globals](const std::string& line) {
        PrintNotice(globals, line);
      }});
  PrintNotice(globals, "waiting for " + nodes->AbsentRanks() + " at " +
                           ToString(place->runner));
  nodes->AwaitRanks(kRanksPatience);
  return nodes;
}

}  // namespace dtrain

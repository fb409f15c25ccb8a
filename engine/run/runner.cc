// Sets an experiment up: its slots, its record, its locks, and the Experiment
// that runs it.
//
// An experiment is recorded by CreateExperiment and run by ExperimentRunner,
// which a later `dtrain resume` constructs again. What results depend on is
// fixed when it is recorded and read from there later: the seed, and the number
// of ranks and of CPU threads of a trial, since floating-point sums depend on
// how they are divided. The slots themselves are planned anew for each run, on
// the machine of that run.
//
// The constructor of ExperimentRunner takes its steps in the order of its
// members. The files are checked first, then the locks are taken, and only then
// the GPUs are searched for, so that a second runner fails before it touches a
// GPU. Both locks are held until the runner is destroyed (runner_lock.cc).

#include "engine/run/runner.h"

#include <algorithm>
#include <random>
#include <sstream>

#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/context/context_links.h"
#include "engine/os/process.h"
#include "engine/process/mps.h"
#include "engine/ranks/rank_connections.h"
#include "engine/ranks/shared_memory.h"
#include "engine/run/experiment.h"
#include "engine/run/recorded_run.h"
#include "engine/run/runner_lock.h"
#include "engine/slots/slot_directory.h"
#include "engine/slots/slots.h"
#include "engine/store/checkpoint_storage.h"
#include "engine/store/file_system.h"
#include "engine/store/file_tree.h"
#include "searchers/repeats.h"
#include "searchers/search_plan.h"

namespace dtrain {
namespace {

// The trial host ends a trial whose runner died within two seconds.
constexpr Duration kSurvivorsLimit = std::chrono::seconds(4);
constexpr Duration kGpuSearchLimit = std::chrono::seconds(10);

// Number of processes of a trial. A command is one, which may start others.
std::int64_t CountRanks(const ExperimentConfig& config, const SlotPlan& plan) {
  return IsCommand(config) ? 1 : plan.slots_per_trial;
}

// Intra-op threads of each of a trial's processes, which share its slots.
std::int64_t ThreadsPerRank(const SlotPlan& plan, std::int64_t ranks) {
  return plan.threads * plan.slots_per_trial / ranks;
}

bool MayUseGpus(const ExperimentConfig& config) {
  const SlotChoice::Kind kind = config.resources.slots.kind;
  return kind != SlotChoice::Kind::kNone && kind != SlotChoice::Kind::kCpu;
}

// True if a trial may be divided between several workers.
bool DividesTrials(const ExperimentConfig& config) {
  return config.resources.listen && !IsCommand(config);
}

void RequireRanks(const ExperimentConfig& config, const SlotPlan& plan) {
  const bool divided = DividesTrials(config) && plan.count == 0;
  const int most = divided ? kMaxNetworkRanks : kMaxRanks;
  const std::int64_t ranks = CountRanks(config, plan);
  if (ranks <= most) return;
  throw Error(ErrorKind::kResources,
              "resources.slots_per_trial: a trial of " + std::to_string(ranks) +
                  " slots would have a rank on each, and it can have " +
                  std::to_string(most) + "; lower it");
}

// Throws if a directory that trials on this machine have links to is missing.
void CheckLinks(const StoreLayout& layout, const ExperimentDetail& detail) {
  const auto resources = detail.config.value("resources", nlohmann::json({}));
  if (!resources.value("local", true)) return;
  const auto link = FindMissingLink(layout.Context(detail.row.id));
  if (!link) return;
  throw Error(ErrorKind::kStore,
              link->target.string() + ": is not a directory, but '" +
                  link->path +
                  "' of each trial is a link to it; restore it, or make it if "
                  "the program fills it");
}

// Throws if the experiment was recorded with a context that is now missing.
void CheckContext(const StoreLayout& layout, const ExperimentDetail& detail) {
  const std::filesystem::path context = layout.Context(detail.row.id);
  std::error_code error;
  if (!detail.provenance.contains("context_hash") ||
      std::filesystem::is_directory(context, error)) {
    return;
  }
  throw Error(ErrorKind::kStore,
              context.string() +
                  ": is missing, and the experiment's trials need it; restore "
                  "it from a backup, or create the experiment again");
}

// Throws if the experiment trained on GPUs before and would now train on CPUs
// without having been asked to: its results would differ, and take days.
void RequireGpusAgain(const ExperimentDetail& detail,
                      const ExperimentConfig& config, const SlotPlan& plan) {
  const auto recorded =
      detail.provenance.value("slots", nlohmann::json::object());
  if (!MayUseGpus(config) || !plan.gpus.empty() || !config.resources.local ||
      recorded.value("gpus", 0) == 0) {
    return;
  }
  const std::string id = std::to_string(detail.row.id);
  throw Error(ErrorKind::kResources,
              "experiment " + id +
                  " trains on GPUs and this machine has none that it may use; "
                  "`dtrain resume " +
                  id + " --slots none` trains on CPUs");
}

// Returns the experiment's own directory in its checkpoint_storage, or empty if
// it has none. Throws Error(kStore) if that cannot be written, or belongs to a
// store of which this is a copy.
std::filesystem::path OpenStorage(const Store& store,
                                  const ExperimentDetail& detail) {
  if (detail.storage.empty()) return {};
  const auto root = store.StorageRoot(detail.storage);
  const auto storage = root / std::to_string(detail.row.id);
  std::string why = StorageFailure(storage);
  if (why.empty()) why = StorageOwnerProblem(store, root);
  if (!why.empty()) throw Error(ErrorKind::kStore, why);
  ClaimStorage(store, root);
  return storage;
}

ExperimentDetail LoadExperiment(const Store& store, std::int64_t id) {
  auto detail = store.Experiment(id);
  if (detail) return *std::move(detail);
  throw Error(ErrorKind::kNotFound,
              "there is no experiment " + std::to_string(id) +
                  "; `dtrain list -a` shows those there are");
}

// Checks the files of the experiment and makes the directory of its trials.
// Returns OpenStorage.
std::filesystem::path PrepareFiles(const Store& store,
                                   const ExperimentDetail& detail) {
  CheckContext(store.layout(), detail);
  CheckLinks(store.layout(), detail);
  std::filesystem::path storage = OpenStorage(store, detail);
  MakeDurableDirectories(store.layout().Trials(detail.row.id));
  return storage;
}

}  // namespace

std::string FindContextDirectory(const StoreLayout& layout,
                                 const ExperimentDetail& detail) {
  const auto copy = layout.Context(detail.row.id);
  std::error_code error;
  if (std::filesystem::is_directory(copy, error)) return copy.string();
  const auto found = detail.provenance.find("context");
  if (found == detail.provenance.end() || !found->is_string()) return ".";
  return found->get<std::string>();
}

namespace {

// Trials that share a GPU are several processes, of which an exclusive one
// accepts only that of MPS.
void RequireShareable(const SlotPlan& plan, const ExperimentConfig& config) {
  if (plan.gpus.empty() || plan.gpu_share >= 1) return;
  const auto found = std::ranges::find_if(plan.gpus, &Gpu::exclusive);
  if (found == plan.gpus.end() ||
      MpsRuns(VariablesWith(config.environment.For(/*gpu=*/true)))) {
    return;
  }
  throw Error(
      ErrorKind::kResources,
      "resources.slots_per_trial: trials cannot share GPU " +
          std::to_string(found->index) + " (" + found->name +
          "), which is in an exclusive compute mode; start MPS "
          "(nvidia-cuda-mps-control -d), permit several processes (nvidia-smi "
          "-c 0), or set it to 1");
}

}  // namespace

namespace {

// The slots of an experiment whose trials run on workers only, which plan their
// own. A CPU slot has one thread.
SlotPlan PlanWithoutSlots(const ResourcesConfig& resources) {
  return {.count = 0,
          .slots_per_trial = std::max<std::int64_t>(
              static_cast<std::int64_t>(resources.slots_per_trial), 1),
          .gpu_share = std::min(resources.slots_per_trial, 1.0)};
}

}  // namespace

SlotPlan PlanExperimentSlots(const ExperimentConfig& config) {
  if (!config.resources.local) {
    SlotPlan none = PlanWithoutSlots(config.resources);
    RequireRanks(config, none);
    return none;
  }
  GpuSearch search;
  if (MayUseGpus(config)) search = FindGpus(kGpuSearchLimit);
  if (!IsCommand(config)) search = ForModels(std::move(search));
  if (!search.problem.empty()) {
    throw Error(ErrorKind::kResources,
                search.problem + "; `--slots none` trains on CPUs");
  }
  SlotPlan plan =
      PlanSlots(config.resources, std::move(search.gpus), UsableCpus(),
                TrialsAtOnce(config.searcher, config.hyperparameters),
                DividesTrials(config));
  plan.warnings = std::move(search.warnings);
  RequireShareable(plan, config);
  RequireRanks(config, plan);
  // The precision of a command is its own choice.
  if (plan.gpus.empty() && !IsCommand(config)) {
    RequireCpuPrecision(config.training);
  }
  return plan;
}

void ResolveConcurrency(ExperimentConfig& config, std::int64_t elsewhere) {
  SearcherConfig& searcher = config.searcher;
  if (!IsModelBased(searcher) || searcher.max_concurrent_trials > 0) return;
  // The number of slots limits the number of trials at once, which is the
  // number asked for here. So the slots are planned for a search without that
  // limit.
  ExperimentConfig unlimited = config;
  const std::int64_t all =
      PlanSearch(searcher, config.hyperparameters).max_trials;
  unlimited.searcher.max_concurrent_trials = all;
  const std::int64_t trials = PlanExperimentSlots(unlimited).count + elsewhere;
  searcher.max_concurrent_trials =
      trials > 0 ? std::min(trials, all) : CountPlaces(searcher);
  config.effective["searcher"]["max_concurrent_trials"] =
      searcher.max_concurrent_trials;
}

std::optional<std::string> FindModelWithFewResults(
    const SearcherConfig& searcher) {
  constexpr std::int64_t kTrialsForEach = 16;
  // max_trials counts points, max_concurrent_trials their repeats.
  const bool is_repeated = searcher.repeats > 1;
  const std::int64_t at_once = PointSearch(searcher).max_concurrent_trials;
  const std::int64_t enough = MultiplyAdd(kTrialsForEach, at_once, 0);
  if (!IsModelBased(searcher) || searcher.max_trials >= enough) {
    return std::nullopt;
  }
  const std::int64_t fewer =
      searcher.max_trials / kTrialsForEach * searcher.repeats;
  return "warning: searcher.max_trials: the model of " + searcher.name +
         " gets too few results from " +
         CountText(searcher.max_trials, is_repeated ? "point" : "trial") +
         ", " + std::to_string(at_once) + " at once; use " +
         std::to_string(enough) + " or more, " +
         (fewer > 0 ? "max_concurrent_trials: " + std::to_string(fewer) + ", "
                    : "") +
         "or " + (is_repeated ? "random" : "async_halving");
}

SearcherConfig CreatedSearcher(const ExperimentDetail& detail,
                               const SearcherConfig& now) {
  const auto extended = detail.provenance.find(kExtended);
  if (extended == detail.provenance.end()) return now;
  nlohmann::json config = detail.config;
  config["searcher"] = extended->at("searcher");
  return ConfigFromJson(config).searcher;
}

std::int64_t CreateExperiment(Store& store, const ExperimentConfig& config,
                              const std::string& yaml,
                              const nlohmann::json& provenance, Clock clock,
                              const RecordOptions& options) {
  const SlotPlan plan = PlanExperimentSlots(config);
  // No trial could run without it.
  static_cast<void>(SlotDirectory::Open());
  // The drawn seed is recorded, since no other seed can reproduce it.
  const std::uint32_t seed =
      config.experiment_seed.value_or(std::random_device{}() & 0x7FFFFFFF);
  NewExperiment experiment{
      .name = config.name,
      .description = config.description,
      .labels = config.labels,
      .searcher = config.searcher.name,
      .metric = config.searcher.metric,
      .smaller_is_better = config.searcher.smaller_is_better,
      .seed = seed,
      .yaml = yaml,
      .config = config.effective,
      .provenance = provenance,
      .storage = options.storage,
      .notify_url = config.notify ? config.notify->url : "",
      .created = clock.now(),
  };
  experiment.config["reproducibility"]["experiment_seed"] = seed;
  const std::int64_t ranks = options.one_process ? 1 : CountRanks(config, plan);
  // A resumed trial keeps its number of threads, on which floating-point sums
  // depend.
  nlohmann::json& slots = experiment.provenance["slots"];
  slots = {{"count", plan.count},
           {"threads", options.threads.value_or(ThreadsPerRank(plan, ranks))},
           {"gpus", plan.gpus.size()}};
  if (!options.one_process) slots["ranks"] = ranks;
  std::int64_t id = 0;
  store.Write([&](StoreWriter& w) {
    id = w.AddExperiment(experiment);
    if (options.paused) {
      w.SetExperimentState(id, State::kPaused, experiment.created);
    }
    if (options.place) options.place(id);
  });
  return id;
}

// Both are held until the runner is destroyed.
struct ExperimentRunner::Locks {
  Locks(const Store& store, std::int64_t id)
      : runner(RunnerLock::Acquire(store.layout().RunnerLock(id))),
        boot_id(BootId()),
        trials(TrialsLock::Acquire(store.layout().TrialsLock(id),
                                   store.Trials(id), boot_id,
                                   kSurvivorsLimit)) {}

  const RunnerLock runner;
  const std::string boot_id;
  const TrialsLock trials;
};

ExperimentRunner::ExperimentRunner(Store& store, std::int64_t id,
                                   ExperimentConfig config, Clock clock)
    : store_(store),
      config_(std::move(config)),
      clock_(std::move(clock)),
      detail_(LoadExperiment(store, id)),
      storage_(PrepareFiles(store, detail_)),
      locks_(std::make_unique<const Locks>(store, id)),
      slots_(PlanExperimentSlots(config_)) {
  RequireGpusAgain(detail_, config_, slots_);
  KeepReserve(store.layout());
}

ExperimentRunner::~ExperimentRunner() = default;

int ExperimentRunner::trials_lock() const { return locks_->trials.fd(); }

RunInfo ExperimentRunner::Info() const {
  const ExperimentRow& row = detail_.row;
  RunInfo info = MakeRunInfo(row, config_);
  info.resumed = row.started.has_value();
  info.slots = slots_.ToString();
  info.units = FindUnits(store_, row.id, config_);
  return info;
}

RunResult ExperimentRunner::Run(Launcher& launcher, const RunOptions& options,
                                Reporter& reporter) {
  const nlohmann::json recorded =
      detail_.provenance.value("slots", nlohmann::json::object());
  // An experiment of an earlier version keeps its one process a trial.
  const std::int64_t ranks =
      recorded.contains("ranks") ? CountRanks(config_, slots_) : 1;
  std::int64_t threads = ThreadsPerRank(slots_, ranks);
  // Sums on CPUs depend on the number of threads, so it is kept. A run on GPUs
  // uses the CPUs of this machine.
  if (slots_.gpus.empty() && recorded.value("gpus", 0) == 0) {
    threads = recorded.value("threads", threads);
  }
  const std::int64_t id = detail_.row.id;
  ExperimentSetup setup{
      .id = id,
      .config = config_,
      .created = CreatedSearcher(detail_, config_.searcher),
      .seed = detail_.row.seed,
      .options = options,
      .info = Info(),
      .refuse_unread = !detail_.provenance.value(kAllowUnread, true),
      .ranks = static_cast<int>(ranks),
      .threads = static_cast<int>(threads),
      .slots =
          config_.resources.listen ? 0 : slots_.count * slots_.slots_per_trial,
      .slots_per_trial = slots_.slots_per_trial,
      .gpu_share = slots_.gpu_share,
      .advice = MpsAdvice(
          slots_.gpu_share,
          VariablesWith(config_.environment.For(!slots_.gpus.empty()))),
      .warnings = slots_.warnings,
      .boot_id = locks_->boot_id,
      .places = Places()};
  return Experiment(std::move(setup), {.store = store_,
                                       .launcher = launcher,
                                       .reporter = reporter,
                                       .clock = clock_})
      .Run();
}

ExperimentPlaces ExperimentRunner::Places() const {
  const StoreLayout& layout = store_.layout();
  return {.context = FindContextDirectory(layout, detail_),
          .stored_context = detail_.provenance.contains("context_hash"),
          .directory = layout.Experiment(detail_.row.id),
          .storage = detail_.storage,
          .storage_directory = storage_,
          .watches_storage =
              FindFileSystem(storage_).kind == FileSystem::Kind::kLocal};
}

}  // namespace dtrain

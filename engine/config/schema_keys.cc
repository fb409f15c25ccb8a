// The table of the configuration's keys (see schema.h). A key is one row here;
// no other code knows its type, bounds or default.
//
// The order of the rows is that of docs/yaml.md, and that in which BuildConfig
// stores the values, on which sink_mode depends. The first part of the file
// has the functions that store a value that is not simply one member.
//
// Which search method has a key of `searcher` is in SearcherTable
// (searchers/registry.cc), next to the method; rules between keys are in
// config_check.cc.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/config/experiment_config.h"
#include "engine/config/metric_source.h"
#include "engine/config/schema.h"
#include "engine/config/slurm_config.h"

namespace dtrain {
namespace {

using enum KeyType;

// --- Storing values in an ExperimentConfig ---

using Json = nlohmann::json;
using Config = ExperimentConfig;

// Functions of KeySpec::store: they copy a value of the effective configuration
// to a member of ExperimentConfig. Null stores nothing.

void Convert(const Json& json, std::string& to) {
  to = json.is_null() ? std::string() : json.get<std::string>();
}

void Convert(const Json& json, Length& to) {
  for (const Unit unit : {Unit::kBatches, Unit::kRecords, Unit::kEpochs}) {
    const std::string name(UnitName(unit));
    if (json.contains(name)) to = {json.at(name).get<std::int64_t>(), unit};
  }
}

// Words that stand for "no number", such as loss_scale: dynamic, store nothing.
template <typename T>
void Convert(const Json& json, std::optional<T>& to) {
  if (json.is_number()) to = json.get<T>();
}

template <typename T>
void Convert(const Json& json, T& to) {
  if (!json.is_null()) to = json.get<T>();
}

// Stores the value in the member that the chain of pointers names.
template <auto... kMembers>
void Into(const Json& json, Config& config) {
  Convert(json, (config.*....*kMembers));
}

template <auto kMember>
constexpr auto IntoTraining = Into<&Config::training, kMember>;
template <auto kMember>
constexpr auto IntoSearcher = Into<&Config::searcher, kMember>;
template <auto kMember>
constexpr auto IntoSlurm = Into<&Config::slurm, kMember>;
template <auto kMember>
constexpr auto IntoCheckpoints = Into<&Config::checkpoints, kMember>;

// A key that is auto, true or false.
template <auto kMember>
void StoreSwitch(const Json& json, Config& config) {
  std::string& to = config.training.*kMember;
  to = !json.is_boolean() ? "auto" : json.get<bool>() ? "on" : "off";
}

void StoreSlots(const Json& json, Config& config) {
  SlotChoice& slots = config.resources.slots;
  using enum SlotChoice::Kind;
  if (json.is_array()) {
    slots = {.kind = kIds, .gpus = json.get<std::vector<std::int64_t>>()};
    return;
  }
  const auto text = json.get<std::string>();
  if (text == "none") slots = {.kind = kNone};
  if (text == "most_free") slots = {.kind = kMaxFree};
  if (text.starts_with("gpu:")) {
    slots = {.kind = kGpu, .gpu_slots = std::stoll(text.substr(4))};
  } else if (text.starts_with("cpu")) {
    slots = {.kind = kCpu};
    if (text.size() > 4) slots.cpu_slots = std::stoll(text.substr(4));
  }
}

void StoreListen(const Json& json, Config& config) {
  if (json.is_null()) return;
  ListenAddress address;
  if (json.is_number()) {
    address.port = json.get<int>();
  } else {
    const auto text = json.get<std::string>();
    const std::size_t colon = text.rfind(':');
    address = {.host = text.substr(0, colon),
               .port = std::stoi(text.substr(colon + 1))};
    if (address.host.starts_with('[')) {
      address.host = address.host.substr(1, address.host.size() - 2);
    }
  }
  config.resources.listen = std::move(address);
}

void StoreNotify(const Json& json, Config& config) {
  if (json.is_null()) return;
  NotifyConfig& notify = config.notify.emplace();
  Convert(json.at("command"), notify.command);
  Convert(json.at("url"), notify.url);
  Convert(json.at("url_env"), notify.url_env);
  notify.slack = json.at("format") == "slack";
  Convert(json.at("secret_env"), notify.secret_env);
  Convert(json.at("on"), notify.on);
}

template <auto kMember>
void StoreSeconds(const Json& json, Config& config) {
  config.slurm.*kMember = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(json.get<double>()));
}

// --- The table ---

constexpr KeySpec kKeys[] = {
    {.path = "name",
     .type = kText,
     .doc = "Name in lists, at most 1,000 bytes; by default the file's name.",
     .least = 1,
     .most = 1000,
     .store = Into<&Config::name>},
    {.path = "description",
     .type = kText,
     .doc = "Free text.",
     .most = 10'000,
     .store = Into<&Config::description>},
    {.path = "labels",
     .type = kTexts,
     .fallback = "[]",
     .doc = "Labels to list and filter by.",
     .least = 1,
     .most = 1000,
     .store = Into<&Config::labels>},
    {.path = "entrypoint",
     .type = kEntrypoint,
     .doc = "The model to train: a built-in one (`dtrain models`), one of your "
            "own ([models.md](models.md)), or a program "
            "([protocol.md](protocol.md)), which is not run by a shell; `{lr}` "
            "in an argument stands for the hyperparameter `lr`.",
     .required = true,
     .store =
         [](const Json& json, Config& config) {
           config.placeholders = json.is_object();
           if (json.is_string()) {
             config.entrypoint = json.get<std::string>();
           } else {
             const Json& words =
                 config.placeholders ? json.at("command") : json;
             config.entrypoint = words.get<std::vector<std::string>>();
           }
         }},
    {.path = "context",
     .type = kSection,
     .doc = "The copy of the experiment's files that each trial works in."},
    {.path = "context.links",
     .type = kTexts,
     .fallback = "[]",
     .doc = "Directories that are not copied: `data` and `../data` of each "
            "trial are links to the originals ([data.md](data.md)). One that "
            "is missing is made.",
     .least = 1,
     .most = 4096,
     .store = Into<&Config::links>},
    {.path = "metrics",
     .type = kMetrics,
     .doc = "Source of the metrics of a program that reports none; see below.",
     .store = StoreMetrics},
    {.path = "hyperparameters",
     .type = kHyperparameters,
     .fallback = "{}",
     .doc = "Hyperparameters of the trials: constants, and ranges to search.",
     .store = Into<&Config::hyperparameters>},
    {.path = "data",
     .type = kMap,
     .fallback = "{}",
     .doc = "Passed to the trial unchanged.",
     .store = Into<&Config::data>},
    {.path = "records_per_epoch",
     .type = kInt,
     .fallback = "0",
     .doc = "Records per epoch, to convert lengths before the data are loaded; "
            "0: take it from the data source.",
     .store = IntoTraining<&TrainerSettings::records_per_epoch>},
    {.path = "min_validation_period",
     .type = kPeriod,
     .fallback = R"({"batches": 0})",
     .doc = "Validate at least this often; 0: only at the end of each searcher "
            "operation.",
     .store = IntoTraining<&TrainerSettings::min_validation_period>},
    {.path = "min_checkpoint_period",
     .type = kPeriod,
     .fallback = R"({"batches": 0})",
     .doc = "Save a checkpoint at least this often, in addition to "
            "checkpoint_policy; 0: only at the end of each searcher operation.",
     .store = IntoTraining<&TrainerSettings::min_checkpoint_period>},
    {.path = "perform_initial_validation",
     .type = kBool,
     .fallback = "false",
     .doc = "Validate before the first batch too.",
     .store = IntoTraining<&TrainerSettings::perform_initial_validation>},
    {.path = "scheduling_unit",
     .type = kInt,
     .fallback = "100",
     .doc = "Batches between training reports. A trial also checks for stop "
            "requests this often.",
     .least = 1,
     .most = 1'000'000'000,
     .store = IntoTraining<&TrainerSettings::scheduling_unit>},
    {.path = "max_restarts",
     .type = kInt,
     .fallback = "5",
     .doc = "Maximum number of restarts of a trial that crashes without making "
            "progress.",
     .most = 1'000'000,
     .store = Into<&Config::max_restarts>},
    {.path = "rules",
     .type = kInt,
     .fallback = "3",
     .doc = "Version of the rules by which results are read and judged. "
            "Experiments recorded before 0.2.0 have 1 and keep it.",
     .least = 1,
     .most = kCurrentRules,
     .store =
         [](const Json& json, Config& config) {
           Convert(json, config.rules);
           Convert(json, config.searcher.rules);
         }},
    {.path = "time_limit",
     .type = kDuration,
     .doc = "Pause the experiment after this time in a run; each `resume` "
            "has the full time again.",
     .store = Into<&Config::time_limit>},
    {.path = "trial_time_limit",
     .type = kDuration,
     .doc = "Stop a trial that has trained for this time in all its runs; its "
            "last validation is its result. Without one it has failed.",
     .store = Into<&Config::trial_time_limit>},
    {.path = "hang_timeout",
     .type = kDuration,
     .fallback = "600",
     .doc = "Restart a trial that makes no step, or a program that reports "
            "and prints nothing, for this long. The timeout of NCCL between "
            "its ranks is one minute longer.",
     .store = Into<&Config::hang_timeout>},
    {.path = "notify",
     .type = kOptionalSection,
     .doc = "Whom to tell of the experiment's end ([notify.md](notify.md)).",
     .store = StoreNotify},
    {.path = "notify.command",
     .type = kTexts,
     .doc = "Program and its arguments, not run by a shell; it reads the "
            "message as JSON from standard input.",
     .least = 1,
     .most = 10'000},
    {.path = "notify.url",
     .type = kText,
     .doc = "Address that the message is sent to by POST. It is stored; a "
            "secret one belongs into `url_env`.",
     .least = 1,
     .most = 2000},
    {.path = "notify.url_env",
     .type = kText,
     .doc = "Environment variable that has the address.",
     .least = 1,
     .most = 1000},
    {.path = "notify.format",
     .type = kWord,
     .fallback = R"("json")",
     .doc = "The message: all of it, or one line of text as web hooks of Slack "
            "take it.",
     .words = "json slack"},
    {.path = "notify.secret_env",
     .type = kText,
     .doc = "Environment variable that has the key by which messages are "
            "signed.",
     .least = 1,
     .most = 1000},
    {.path = "notify.on",
     .type = kTexts,
     .fallback = R"(["completed", "error", "canceled", "paused"])",
     .doc = "Events that a message is sent for.",
     .words = "completed error canceled paused best trial_error"},
    {.path = "checkpoint_policy",
     .type = kWord,
     .fallback = R"("best")",
     .doc = "Which validations create a checkpoint: the best of their trial so "
            "far, all, or none.",
     .words = "best all none",
     .store =
         [](const Json& json, Config& config) {
           Convert(json, config.training.checkpoint_policy);
           Convert(json, config.checkpoints.policy);
         }},
    {.path = "checkpoint_storage",
     .type = kSection,
     .doc = "Where checkpoints are stored, and which are kept."},
    {.path = "checkpoint_storage.type",
     .type = kWord,
     .doc = "Both mean a directory. In place of s3, gcs, azure and hdfs, "
            "checkpoints are written to this machine, with a note.",
     .words = "directory shared_fs"},
    {.path = "checkpoint_storage.path",
     .type = kText,
     .doc = "Directory for checkpoints, which are in a subdirectory of the "
            "store; by default they are in the store.",
     .least = 1,
     .most = 4096,
     .store = IntoCheckpoints<&CheckpointConfig::path>},
    {.path = "checkpoint_storage.host_path",
     .type = kText,
     .doc = "Another name for path.",
     .least = 1,
     .most = 4096},
    {.path = "checkpoint_storage.container_path",
     .type = kText,
     .doc = "Another name for path.",
     .least = 1,
     .most = 4096},
    {.path = "checkpoint_storage.storage_path",
     .type = kText,
     .doc = "Directory below host_path; created if it is missing.",
     .least = 1,
     .most = 4096},
    {.path = "checkpoint_storage.checkpoint_path",
     .type = kText,
     .doc = "Another name for storage_path.",
     .least = 1,
     .most = 4096},
    {.path = "checkpoint_storage.save_experiment_best",
     .type = kInt,
     .fallback = "0",
     .doc = "Number of best checkpoints of the experiment to keep.",
     .most = 1'000'000,
     .store = IntoCheckpoints<&CheckpointConfig::save_experiment_best>},
    {.path = "checkpoint_storage.save_trial_best",
     .type = kInt,
     .fallback = "1",
     .doc = "Number of best checkpoints of each trial to keep.",
     .most = 1'000'000,
     .store = IntoCheckpoints<&CheckpointConfig::save_trial_best>},
    {.path = "checkpoint_storage.save_trial_latest",
     .type = kInt,
     .fallback = "1",
     .doc = "Number of latest checkpoints of each trial to keep.",
     .most = 1'000'000,
     .store = IntoCheckpoints<&CheckpointConfig::save_trial_latest>},
    {.path = "reproducibility",
     .type = kSection,
     .doc = "Random seeds and determinism."},
    {.path = "reproducibility.experiment_seed",
     .type = kInt,
     .doc = "Seed of all random numbers; by default it is drawn and recorded.",
     .most = 2'147'483'647,
     .store = Into<&Config::experiment_seed>},
    {.path = "reproducibility.trial_seed",
     .type = kInt,
     .doc = "Seed of the trial of a single search; by default it follows from "
            "experiment_seed.",
     .most = 2'147'483'647,
     .store = Into<&Config::trial_seed>},
    {.path = "reproducibility.deterministic",
     .type = kBool,
     .fallback = "false",
     .doc = "Use deterministic operations on a GPU too, which are slower; an "
            "operation without a deterministic variant is an error.",
     .store = IntoTraining<&TrainerSettings::deterministic>},
    {.path = "resources",
     .type = kSection,
     .doc = "GPUs or CPUs of the trials."},
    {.path = "resources.slots_per_trial",
     .type = kSlotsPerTrial,
     .fallback = "1",
     .doc = "Slots of one trial, with one rank on each: GPUs or CPU slots, a "
            "share of one GPU, or all; 0: one CPU slot, no GPU.",
     .store =
         [](const Json& json, Config& config) {
           config.resources.all_slots = json == "all";
           if (json.is_number())
             Convert(json, config.resources.slots_per_trial);
         }},
    {.path = "resources.max_slots",
     .type = kInt,
     .doc = "Maximum number of slots in use at a time; with shares of GPUs, "
            "the number of whole GPUs.",
     .least = 1,
     .most = 100'000,
     .store = Into<&Config::resources, &ResourcesConfig::max_slots>},
    {.path = "resources.slots",
     .type = kSlots,
     .fallback = R"("auto")",
     .doc = "Slots to use: every GPU, or CPUs if there is no GPU; no GPU; CPU "
            "slots; N CPU slots; any N GPUs; the GPU with the most free "
            "memory; these GPUs.",
     .store = StoreSlots},
    {.path = "resources.listen",
     .type = kListen,
     .doc = "Address at which `dtrain worker` on other machines offers its "
            "slots; 0: any free port. Without a host: every address of this "
            "machine.",
     .store = StoreListen},
    {.path = "resources.local",
     .type = kBool,
     .fallback = "true",
     .doc = "Run trials on this machine too; false needs `listen`.",
     .store = Into<&Config::resources, &ResourcesConfig::local>},
    {.path = "resources.executor",
     .type = kWord,
     .fallback = R"("local")",
     .doc = "Where trials run: on this machine, or on workers that jobs of "
            "Slurm start ([slurm.md](slurm.md)).",
     .words = "local slurm",
     .store = Into<&Config::resources, &ResourcesConfig::executor>},
    {.path = "profiling", .type = kSection, .doc = "Profiling of trials."},
    {.path = "profiling.enabled",
     .type = kBool,
     .fallback = "false",
     .doc = "Record where the time of each trial goes; `dtrain describe EXP.T` "
            "shows it.",
     .store = IntoTraining<&TrainerSettings::profile>},
    {.path = "profiling.system",
     .type = kBool,
     .fallback = "true",
     .doc = "Sample what the processes and GPUs of each trial use, every 5 s "
            "([system.md](system.md)).",
     .store = Into<&Config::system_metrics>},
    {.path = "environment",
     .type = kSection,
     .doc = "Environment of the trials' processes."},
    {.path = "environment.environment_variables",
     .type = kEnvironment,
     .fallback = "{}",
     .doc = "Variables for trials; those under `cpu` or `cuda` are only for "
            "trials on CPUs or GPUs. Values are never stored: the value of a "
            "name without one, and of every name after `dtrain resume`, is "
            "taken from the shell."},
    {.path = "slurm",
     .type = kOptionalSection,
     .doc = "Jobs of Slurm that start workers, with `resources.executor: "
            "slurm` ([slurm.md](slurm.md))."},
    {.path = "slurm.partition",
     .type = kText,
     .doc = "Partition; by default Slurm's.",
     .least = 1,
     .most = 1000,
     .store = IntoSlurm<&SlurmConfig::partition>},
    {.path = "slurm.account",
     .type = kText,
     .doc = "Account that is charged.",
     .least = 1,
     .most = 1000,
     .store = IntoSlurm<&SlurmConfig::account>},
    {.path = "slurm.qos",
     .type = kText,
     .doc = "Quality of service.",
     .least = 1,
     .most = 1000,
     .store = IntoSlurm<&SlurmConfig::qos>},
    {.path = "slurm.time",
     .type = kSlurmTime,
     .fallback = R"("04:00:00")",
     .doc = "Walltime of a job. A trial can be longer: it continues in the "
            "next job.",
     .store =
         [](const Json& json, Config& config) {
           config.slurm.time = ParseSlurmTime(json.get<std::string>()).value();
         }},
    {.path = "slurm.nodes",
     .type = kInt,
     .fallback = "1",
     .doc = "Nodes of a job, with one worker on each.",
     .least = 1,
     .most = 1000,
     .store = IntoSlurm<&SlurmConfig::nodes>},
    {.path = "slurm.gpus_per_node",
     .type = kInt,
     .doc = "GPUs of a worker.",
     .least = 1,
     .most = 1024,
     .store = IntoSlurm<&SlurmConfig::gpus_per_node>},
    {.path = "slurm.cpus_per_task",
     .type = kInt,
     .doc = "CPUs of a worker.",
     .least = 1,
     .most = 10'000,
     .store = IntoSlurm<&SlurmConfig::cpus_per_task>},
    {.path = "slurm.mem",
     .type = kText,
     .doc = "Memory of a node, such as `64G`.",
     .least = 1,
     .most = 1000,
     .store = IntoSlurm<&SlurmConfig::mem>},
    {.path = "slurm.constraint",
     .type = kText,
     .doc = "Features that nodes must have.",
     .least = 1,
     .most = 1000,
     .store = IntoSlurm<&SlurmConfig::constraint>},
    {.path = "slurm.max_jobs",
     .type = kInt,
     .fallback = "8",
     .doc = "Maximum number of jobs at a time, pending ones included.",
     .least = 1,
     .most = 10'000,
     .store = IntoSlurm<&SlurmConfig::max_jobs>},
    {.path = "slurm.min_jobs",
     .type = kInt,
     .fallback = "0",
     .doc = "Jobs that are kept even if there is nothing to do.",
     .most = 10'000,
     .store = IntoSlurm<&SlurmConfig::min_jobs>},
    {.path = "slurm.idle_timeout",
     .type = kDuration,
     .fallback = "60",
     .doc = "A job whose workers have had no trial for so long is ended.",
     .store = StoreSeconds<&SlurmConfig::idle_timeout>},
    {.path = "slurm.grace",
     .type = kDuration,
     .fallback = "120",
     .doc = "Time before the walltime at which trials are paused, to save a "
            "checkpoint and continue elsewhere.",
     .store = StoreSeconds<&SlurmConfig::grace>},
    {.path = "slurm.sbatch_args",
     .type = kTexts,
     .fallback = "[]",
     .doc = "Further options, as `sbatch` takes them.",
     .least = 1,
     .most = 1000,
     .store = IntoSlurm<&SlurmConfig::sbatch_args>},
    {.path = "slurm.prologue",
     .type = kTexts,
     .fallback = "[]",
     .doc = "Lines of bash that a job executes before its workers, such as "
            "`module load cuda`.",
     .most = 10'000,
     .store = IntoSlurm<&SlurmConfig::prologue>},
    {.path = "searcher",
     .type = kSection,
     .doc = "Which trials run, and for how long.",
     .required = true},
    {.path = "searcher.name",
     .type = kWord,
     .doc = "The search method.",
     .required = true,
     .substitutes = "adaptive=adaptive_asha adaptive_simple=adaptive_asha "
                    "sync_halving=async_halving hyperband=adaptive_asha "
                    "tpe=bayesian_asha bayes=bayesian_asha "
                    "bayesian=bayesian_asha bohb=bayesian_asha "
                    "optuna=bayesian_asha gp=bayesian_asha "
                    "hyperopt=bayesian_asha smac=bayesian_asha "
                    "median=async_halving pbt=adaptive_asha "
                    "random_search=random grid_search=grid",
     .store = IntoSearcher<&SearcherConfig::name>},
    {.path = "searcher.metric",
     .type = kText,
     .doc = "Validation metric that decides which trial is best.",
     .least = 1,
     .most = 1000,
     .required = true,
     .store =
         [](const Json& json, Config& config) {
           Convert(json, config.searcher.metric);
           Convert(json, config.training.searcher_metric);
         }},
    {.path = "searcher.smaller_is_better",
     .type = kBool,
     .fallback = "true",
     .doc = "Whether smaller values of the metric are better.",
     .store =
         [](const Json& json, Config& config) {
           Convert(json, config.searcher.smaller_is_better);
           Convert(json, config.training.smaller_is_better);
         }},
    {.path = "searcher.max_length",
     .type = kLength,
     .doc = "Maximum length of a trial. Required unless max_time is given; "
            "programs under single, random and grid may omit it.",
     // Length 0 without max_length and max_time, which has the unit of
     // time_metric.
     .store =
         [](const Json& json, Config& config) {
           if (json.is_null()) return;
           Length length;
           Convert(json, length);
           config.searcher.max_length = length.count;
           config.length_unit = length.unit;
         }},
    {.path = "searcher.max_time",
     .type = kInt,
     .doc = "Replaces max_length, in the unit of time_metric.",
     .least = 1,
     .store = IntoSearcher<&SearcherConfig::max_length>},
    {.path = "searcher.time_metric",
     .type = kText,
     .doc = "Unit of max_time: batches, records or epochs; for a program also "
            "the name of a metric that gives its count.",
     .least = 1,
     .most = 1000,
     // A program counts by a metric of another name as by epochs: in reports it
     // has
     // both the count and the batches.
     .store =
         [](const Json& json, Config& config) {
           if (json.is_null()) return;
           Convert(json, config.training.time_metric);
           config.length_unit = Unit::kEpochs;
           for (const Unit unit :
                {Unit::kBatches, Unit::kRecords, Unit::kEpochs}) {
             if (json == UnitName(unit)) config.length_unit = unit;
           }
         }},
    {.path = "searcher.max_trials",
     .type = kInt,
     .doc = "Number of trials.",
     .least = 1,
     .most = 1'000'000,
     .required = true,
     .store = IntoSearcher<&SearcherConfig::max_trials>},
    {.path = "searcher.max_concurrent_trials",
     .type = kInt,
     .fallback = "16",
     .doc = "Maximum number of trials that run at the same time; 0: no limit. "
            "For bayesian_asha the default and 0 mean as many as the slots "
            "hold, on Slurm those of max_jobs jobs.",
     .most = 1'000'000,
     .store = IntoSearcher<&SearcherConfig::max_concurrent_trials>},
    {.path = "searcher.repeats",
     .type = kInt,
     .fallback = "1",
     .doc = "Number of trials of each point, with different seeds. max_trials "
            "counts points, max_concurrent_trials trials. Needs num_rungs: 1 "
            "in bayesian_asha.",
     .least = 1,
     .most = 1000,
     .store = IntoSearcher<&SearcherConfig::repeats>},
    {.path = "searcher.repeat_metric",
     .type = kWord,
     .fallback = R"("mean")",
     .doc = "Value of a point, from those of its repeats.",
     .words = "mean median min max",
     .store = IntoSearcher<&SearcherConfig::repeat_metric>},
    {.path = "searcher.num_rungs",
     .type = kInt,
     .doc = "Number of rungs; by default as many as max_length and max_trials "
            "allow, at most 5. For bayesian_asha one more if the budget is 15 "
            "full trainings or more.",
     .least = 1,
     .most = 64,
     .store = IntoSearcher<&SearcherConfig::num_rungs>},
    {.path = "searcher.divisor",
     .type = kNumber,
     .fallback = "4",
     .doc = "One in this many trials of a rung is trained to the next rung.",
     .least = 1,
     .most = 1'000'000,
     .above_least = true,
     .store = IntoSearcher<&SearcherConfig::divisor>},
    {.path = "searcher.stop_once",
     .type = kBool,
     .fallback = "false",
     .doc = "Stop trials instead of pausing and promoting them.",
     .store = IntoSearcher<&SearcherConfig::stop_once>},
    {.path = "searcher.mode",
     .type = kWord,
     .fallback = R"("standard")",
     .doc = "How early trials are stopped.",
     .words = "conservative standard aggressive",
     .store = IntoSearcher<&SearcherConfig::mode>},
    {.path = "searcher.max_rungs",
     .type = kInt,
     .fallback = "5",
     .doc = "Maximum number of rungs in a bracket.",
     .least = 1,
     .most = 64,
     .store = IntoSearcher<&SearcherConfig::max_rungs>},
    {.path = "searcher.bracket_rungs",
     .type = kInts,
     .fallback = "[]",
     .doc = "Number of rungs of each bracket, instead of mode.",
     .least = 1,
     .most = 64,
     .store = IntoSearcher<&SearcherConfig::bracket_rungs>},
    {.path = "searcher.stops",
     .type = kInts,
     .fallback = "[]",
     .doc = "Lengths before max_length at which the trial is validated and "
            "saved, like a trial that is promoted there.",
     .least = 1,
     .store = IntoSearcher<&SearcherConfig::stops>},
    {.path = "searcher.constraints",
     .type = kConstraints,
     .fallback = "[]",
     .doc = "Conditions on the hyperparameters that every trial meets; see "
            "below.",
     .store = IntoSearcher<&SearcherConfig::constraints>},
    {.path = "searcher.points",
     .type = kPoints,
     .fallback = "[]",
     .doc = "Hyperparameters to try first; what a point does not name is "
            "drawn.",
     .store = IntoSearcher<&SearcherConfig::points>},
    {.path = "searcher.budget",
     .type = kBudget,
     .doc = "Length that all trials together may train, or a duration such as "
            "8h, the sum of their training times; by default the total of the "
            "plan of async_halving with the same keys.",
     // REQUIRES: a length is in the unit of max_length.
     .store =
         [](const Json& json, Config& config) {
           if (json.is_null()) return;
           const auto budget = json.begin();  // unit and count
           if (budget.key() == "seconds") {
             config.searcher.budget_seconds = budget.value().get<double>();
           } else {
             config.searcher.budget = budget.value().get<std::int64_t>();
           }
         }},
    {.path = "searcher.cost",
     .type = kWord,
     .doc = "Cost of a trial in decisions: the seconds that it takes for its "
            "length, or its length only; by default length, or time if budget "
            "is a duration.",
     .words = "time length",
     .store = IntoSearcher<&SearcherConfig::cost>},
    {.path = "searcher.target",
     .type = kNumber,
     .doc = "End the search, COMPLETED, at a validation whose metric is this "
            "good.",
     .least = -kMaxCount,
     .store = IntoSearcher<&SearcherConfig::target>},
    {.path = "searcher.max_duration",
     .type = kDuration,
     .doc = "End the search, COMPLETED, after this time in all its runs: no "
            "trial starts, and those that run end at their next validation.",
     .store = IntoSearcher<&SearcherConfig::max_duration>},
    {.path = "searcher.warm_start",
     .type = kExperiments,
     .fallback = "[]",
     .doc = "Experiments of this store whose best trials become points, behind "
            "those of points.",
     .store =
         [](const Json& json, Config& config) {
           for (const Json& source : json) {
             const bool is_label = source.is_string();
             config.warm_start.push_back(
                 {.experiment = is_label ? 0 : source.get<std::int64_t>(),
                  .label = is_label ? source.get<std::string>().substr(
                                          kLabelPrefix.size())
                                    : ""});
           }
         }},
    {.path = "searcher.source_trial_id",
     .type = kTrialId,
     .doc = "Start with the weights of the latest checkpoint of this trial, "
            "with counters at 0.",
     .store = Into<&Config::source_trial_id>},
    {.path = "searcher.source_checkpoint_uuid",
     .type = kUuid,
     .doc = "Start with the weights of this checkpoint, with counters at 0.",
     .store = Into<&Config::source_checkpoint_uuid>},
    {.path = "optimizations",
     .type = kSection,
     .doc = "Options of the training step."},
    {.path = "optimizations.aggregation_frequency",
     .type = kInt,
     .fallback = "1",
     .doc = "Number of batches whose gradients are added up for one optimizer "
            "step.",
     .least = 1,
     .most = 1'000'000,
     .store = IntoTraining<&TrainerSettings::aggregation_frequency>},
    {.path = "optimizations.average_aggregated_gradients",
     .type = kBool,
     .fallback = "true",
     .doc = "Divide that sum by the number of batches.",
     .store = IntoTraining<&TrainerSettings::average_aggregated_gradients>},
    {.path = "optimizations.average_training_metrics",
     .type = kBool,
     .fallback = "true",
     .doc = "Average training metrics over ranks and batches.",
     .store = IntoTraining<&TrainerSettings::average_training_metrics>},
    {.path = "optimizations.mixed_precision",
     .type = kWord,
     .fallback = R"("none")",
     .doc = "Data type of forward and backward passes.",
     .words = "none tf32 bf16 fp16 O0=none O1=fp16",
     .substitutes = "O2=O1 O3=O1",
     .store = IntoTraining<&TrainerSettings::mixed_precision>},
    {.path = "optimizations.loss_scale",
     .type = kLossScale,
     .doc = "Loss scale under fp16; the default is dynamic.",
     .store = IntoTraining<&TrainerSettings::loss_scale>},
    {.path = "optimizations.clip_gradients",
     .type = kOptionalSection,
     .doc = "Clip gradients before each optimizer step, by norm or by value."},
    {.path = "optimizations.clip_gradients.norm",
     .type = kNumber,
     .doc = "Maximum 2-norm of all gradients together.",
     .above_least = true,
     .store = IntoTraining<&TrainerSettings::clip_norm>},
    {.path = "optimizations.clip_gradients.value",
     .type = kNumber,
     .doc = "Maximum absolute value of a gradient.",
     .above_least = true,
     .store = IntoTraining<&TrainerSettings::clip_value>},
    {.path = "optimizations.sink_size",
     .type = kInt,
     .fallback = "0",
     .doc = "Data sinking: train this many steps without interruption, as one "
            "epoch; −1: the whole data set; 0: off.",
     .least = -1,
     .most = 1'000'000'000,
     .store = IntoTraining<&TrainerSettings::sink_size>},
    {.path = "optimizations.dataset_sink_mode",
     .type = kBool,
     .fallback = "true",
     .doc = "Whether `sink_size` is applied.",
     // Follows sink_size in the table.
     .store =
         [](const Json& json, Config& config) {
           if (!json.get<bool>()) config.training.sink_size = 0;
         }},
    {.path = "optimizations.channels_last",
     .type = kSwitch,
     .fallback = R"("auto")",
     .doc = "Whether convolutions use the channels-last memory format; auto: "
            "on a GPU the faster one by measurement, on CPUs in networks with "
            "many channels.",
     .store = StoreSwitch<&TrainerSettings::channels_last>},
    {.path = "optimizations.cuda_graphs",
     .type = kSwitch,
     .fallback = R"("auto")",
     .doc = "Whether steps on a GPU are captured as a CUDA graph and replayed; "
            "auto: if the model declares that they can be.",
     .store = StoreSwitch<&TrainerSettings::cuda_graphs>},
    {.path = "optimizations.update_in_backward",
     .type = kBool,
     .fallback = "false",
     .doc = "Update each parameter as soon as its gradient is complete, which "
            "saves the memory of the gradients.",
     .store = IntoTraining<&TrainerSettings::update_in_backward>},
    {.path = "early_stopping",
     .type = kOptionalSection,
     .doc = "Ends a trial whose metric has stopped improving.",
     .store =
         [](const Json& json, Config& config) {
           if (json.is_null()) return;
           config.training.early_stopping = EarlyStopping{
               .metric = json.at("metric").get<std::string>(),
               .smaller_is_better = json.at("smaller_is_better").get<bool>(),
               .patience = json.at("patience").get<std::int64_t>(),
               .min_delta = json.at("min_delta").get<double>()};
         }},
    {.path = "early_stopping.metric",
     .type = kText,
     .doc = "Validation metric to watch; by default the searcher's.",
     .least = 1,
     .most = 1000},
    {.path = "early_stopping.patience",
     .type = kInt,
     .doc = "Number of successive validations without improvement.",
     .least = 1,
     .most = 1'000'000,
     .required = true},
    {.path = "early_stopping.min_delta",
     .type = kNumber,
     .fallback = "0",
     .doc = "Smaller improvements do not count."},
    {.path = "early_stopping.smaller_is_better",
     .type = kBool,
     .doc = "Whether smaller values are better; by default as in the searcher "
            "for its metric, otherwise true."},
};

}  // namespace

std::span<const KeySpec> UsedKeys() { return kKeys; }

}  // namespace dtrain

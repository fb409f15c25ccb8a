// The table of the configuration's keys (see schema.h). A key is one row here;
// no other code knows its type, bounds or default.
//
// The order of the rows is that of docs/yaml.md, and that in which BuildConfig
// stores the values, on which StoreSinkMode depends. The first part of the file
// has the functions that store a value that is not simply one member.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/config/experiment_config.h"
#include "engine/config/key_storing.h"
#include "engine/config/metric_source.h"
#include "engine/config/schema.h"

namespace dtrain {
namespace {

using enum KeyType;

// --- Storing values in an ExperimentConfig ---

using namespace key_storing;  // NOLINT: the functions of this table
using Json = nlohmann::json;
using Config = ExperimentConfig;

// A key that is auto, true or false.
template <auto kMember>
void StoreSwitch(const Json& json, Config& config) {
  std::string& to = config.training.*kMember;
  to = !json.is_boolean() ? "auto" : json.get<bool>() ? "on" : "off";
}

void StoreEntrypoint(const Json& json, Config& config) {
  config.placeholders = json.is_object();
  if (json.is_string()) {
    config.entrypoint = json.get<std::string>();
  } else {
    const Json& words = config.placeholders ? json.at("command") : json;
    config.entrypoint = words.get<std::vector<std::string>>();
  }
}

void StoreRules(const Json& json, Config& config) {
  Convert(json, config.rules);
  Convert(json, config.searcher.rules);
}

void StorePolicy(const Json& json, Config& config) {
  Convert(json, config.training.checkpoint_policy);
  Convert(json, config.checkpoints.policy);
}

void StoreSlotsPerTrial(const Json& json, Config& config) {
  config.resources.all_slots = json == "all";
  if (json.is_number()) Convert(json, config.resources.slots_per_trial);
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

// Follows sink_size in the table.
void StoreSinkMode(const Json& json, Config& config) {
  if (!json.get<bool>()) config.training.sink_size = 0;
}

void StoreEarlyStopping(const Json& json, Config& config) {
  if (json.is_null()) return;
  config.training.early_stopping = EarlyStopping{
      .metric = json.at("metric").get<std::string>(),
      .smaller_is_better = json.at("smaller_is_better").get<bool>(),
      .patience = json.at("patience").get<std::int64_t>(),
      .min_delta = json.at("min_delta").get<double>()};
}

// --- The table ---

// Keys of the top level, and of the sections about storage and resources, in
// the order of the reference.
constexpr KeySpec kExperimentKeys[] = {
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
     .store = StoreEntrypoint},
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
     .fallback = "2",
     .doc = "Version of the rules by which results are read and judged. "
            "Experiments recorded before 0.2.0 have 1 and keep it.",
     .least = 1,
     .most = kCurrentRules,
     .store = StoreRules},
    {.path = "time_limit",
     .type = kDuration,
     .doc = "Pause the experiment after this time in a run; each `resume` "
            "has the full time again.",
     .store = Into<&Config::time_limit>},
    {.path = "hang_timeout",
     .type = kDuration,
     .fallback = "600",
     .doc = "Restart a trial that makes no step, or a program that reports "
            "and prints nothing, for this long. The timeout of NCCL between "
            "its ranks is one minute longer.",
     .store = Into<&Config::hang_timeout>},
    {.path = "checkpoint_policy",
     .type = kWord,
     .fallback = R"("best")",
     .doc = "Which validations create a checkpoint: the best of their trial so "
            "far, all, or none.",
     .words = "best all none",
     .store = StorePolicy},
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
     .store = StoreSlotsPerTrial},
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
};

// Keys of `optimizations` and `early_stopping`.
constexpr KeySpec kTrainingKeys[] = {
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
     .store = StoreSinkMode},
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
     .store = StoreEarlyStopping},
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

std::span<const KeySpec> ExperimentKeys() { return kExperimentKeys; }
std::span<const KeySpec> TrainingKeys() { return kTrainingKeys; }

}  // namespace dtrain

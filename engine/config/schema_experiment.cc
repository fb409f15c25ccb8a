#include <array>

#include "engine/config/schema.h"

// The keys of the top level, in the order of the reference, and the sections
// that say where an experiment runs and what it keeps.

namespace dtrain {
namespace {

using enum KeyType;

constexpr KeySpec kExperimentKeys[] = {
    {.path = "name",
     .type = kText,
     .doc = "What lists call the experiment, a label of at most 1,000 bytes; "
            "without it, the file's name.",
     .least = 1,
     .most = 1000},
    {.path = "description",
     .type = kText,
     .doc = "A sentence for people.",
     .most = 10'000},
    {.path = "labels",
     .type = kTexts,
     .fallback = "[]",
     .doc = "Labels to list and filter by.",
     .least = 1,
     .most = 1000},
    {.path = "entrypoint",
     .type = kEntrypoint,
     .doc = "What is trained: a registered trial (`dtrain models`), or a "
            "command ([protocol.md](protocol.md)). No shell runs a command.",
     .required = true},
    {.path = "hyperparameters",
     .type = kHyperparameters,
     .fallback = "{}",
     .doc = "What the trial is made with: constants, and ranges to search."},
    {.path = "data",
     .type = kMap,
     .fallback = "{}",
     .doc = "Handed to the trial as it is."},
    {.path = "records_per_epoch",
     .type = kInt,
     .fallback = "0",
     .doc = "Records in an epoch, for converting lengths before the data is "
            "there; 0: as the data source says."},
    {.path = "min_validation_period",
     .type = kPeriod,
     .fallback = R"({"batches": 0})",
     .doc = "Validate at least this often; 0: only at the end of each searcher "
            "operation."},
    {.path = "min_checkpoint_period",
     .type = kPeriod,
     .fallback = R"({"batches": 0})",
     .doc = "Checkpoint at least this often, whatever checkpoint_policy adds; "
            "0: at the end of each searcher operation."},
    {.path = "perform_initial_validation",
     .type = kBool,
     .fallback = "false",
     .doc = "Validate before the first batch too."},
    {.path = "scheduling_unit",
     .type = kInt,
     .fallback = "100",
     .doc = "Batches between training reports, which is also how often a "
            "trial looks whether it shall stop.",
     .least = 1,
     .most = 1'000'000'000},
    {.path = "max_restarts",
     .type = kInt,
     .fallback = "5",
     .doc = "How often a trial is started again that crashes without getting "
            "further.",
     .most = 1'000'000},
    {.path = "time_limit",
     .type = kDuration,
     .doc = "The experiment is paused when it has run this long."},
    {.path = "hang_timeout",
     .type = kDuration,
     .fallback = "600",
     .doc = "A trial without a step for this long is ended and started "
            "again."},
    {.path = "checkpoint_policy",
     .type = kWord,
     .fallback = R"("best")",
     .doc = "Which validations make a checkpoint: those that are the best of "
            "their trial so far, all of them, or none.",
     .words = "best all none"},
    {.path = "checkpoint_storage",
     .type = kSection,
     .doc = "Where checkpoints are, and which are kept at the end."},
    {.path = "checkpoint_storage.type",
     .type = kWord,
     .doc = "Both mean a directory. s3, gcs, azure and hdfs are refused.",
     .words = "directory shared_fs"},
    {.path = "checkpoint_storage.path",
     .type = kText,
     .doc =
         "Directory that checkpoints go to, in one of the store's own; without "
         "it they are in the store.",
     .least = 1,
     .most = 4096},
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
     .doc = "Directory below host_path, made where it is missing.",
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
     .doc = "How many of the experiment's best checkpoints are kept.",
     .most = 1'000'000},
    {.path = "checkpoint_storage.save_trial_best",
     .type = kInt,
     .fallback = "1",
     .doc = "How many of each trial's best checkpoints are kept.",
     .most = 1'000'000},
    {.path = "checkpoint_storage.save_trial_latest",
     .type = kInt,
     .fallback = "1",
     .doc = "How many of each trial's latest checkpoints are kept.",
     .most = 1'000'000},
    {.path = "reproducibility", .type = kSection, .doc = "Randomness."},
    {.path = "reproducibility.experiment_seed",
     .type = kInt,
     .doc = "Seeds everything; without it one is drawn and recorded.",
     .most = 2'147'483'647},
    {.path = "reproducibility.trial_seed",
     .type = kInt,
     .doc = "The seed of the trial of a single search, instead of one that "
            "follows from experiment_seed.",
     .most = 2'147'483'647},
    {.path = "reproducibility.deterministic",
     .type = kBool,
     .fallback = "false",
     .doc = "The same bits from the same seed on a GPU too, by slower "
            "operations; one that has no such variant is an error."},
    {.path = "resources",
     .type = kSection,
     .doc = "Which GPUs or CPUs the trials run on."},
    {.path = "resources.slots_per_trial",
     .type = kSlotsPerTrial,
     .fallback = "1",
     .doc = "Slots of one trial, with a rank on each: GPUs or CPU slots, a "
            "share of one GPU, or all; 0: one CPU slot, no GPU."},
    {.path = "resources.max_slots",
     .type = kInt,
     .doc = "At most this many slots at once; of GPUs that trials share, so "
            "many GPUs' worth.",
     .least = 1,
     .most = 100'000},
    {.path = "resources.slots",
     .type = kSlots,
     .fallback = R"("auto")",
     .doc = "Which slots: every GPU, or CPUs where there is none; no GPU; N "
            "CPU slots; any N GPUs; the GPU with the most free memory; these "
            "GPUs."},
    {.path = "resources.executor",
     .type = kWord,
     .fallback = R"("local")",
     .doc = "Who starts the trials.",
     .words = "local slurm",
     .ready = R"(["local"])"},
    {.path = "resources.slurm",
     .type = kMap,
     .fallback = "{}",
     .doc = "Settings of the Slurm executor.",
     .ready = "[{}]"},
    {.path = "profiling", .type = kSection, .doc = "Profiling of trials."},
    {.path = "profiling.enabled",
     .type = kBool,
     .fallback = "false",
     .doc = "Record where the time of each trial goes; `dtrain describe EXP.T` "
            "shows it."},
    {.path = "environment",
     .type = kSection,
     .doc = "What the trial's process finds around it."},
    {.path = "environment.environment_variables",
     .type = kEnvironment,
     .fallback = "{}",
     .doc = "Variables for trials; those under `cpu` or `cuda` only for "
            "trials on CPUs or GPUs. Values are never stored; a name without a "
            "value, and every name after `dtrain resume`, is taken from the "
            "shell."},
};

}  // namespace

std::span<const KeySpec> ExperimentKeys() { return kExperimentKeys; }

}  // namespace dtrain

// The table of the built-in models: names, summaries, hyperparameters with
// their checks and defaults, and how to make a trial.
//
// `dtrain` itself links this file without LibTorch, for `models`, `validate`
// and `create`; there the functions that make trials are weak symbols without a
// definition. The trial host links the models as well.
//
// A check accepts what the model accepts, and any value of another type, since
// types are checked by engine/config/hparam_rules.cc. Whoever adds a
// hyperparameter to a model adds it here.

#include "models/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "engine/base/text.h"
#include "models/data_files.h"

namespace dtrain {

// Weak: the trial library defines them. `dtrain` links this file without them,
// and their addresses are null.
[[gnu::weak]] std::unique_ptr<Trial> MakeCNNTrial(TrialContext& context);
[[gnu::weak]] std::unique_ptr<Trial> MakeFaultTrial(TrialContext& context);
[[gnu::weak]] std::unique_ptr<Trial> MakeImageNetTrial(TrialContext& context);
[[gnu::weak]] std::unique_ptr<Trial> MakeLeNetTrial(TrialContext& context);
[[gnu::weak]] std::unique_ptr<Trial> MakeMNISTTrial(TrialContext& context);
[[gnu::weak]] std::unique_ptr<Trial> MakeReluReduceMeanDenseTrial(
    TrialContext& context);
[[gnu::weak]] std::unique_ptr<Trial> MakeXceptionTrial(TrialContext& context);

namespace {

using Json = nlohmann::json;

std::string FormatFault(const std::string& expected, const Json& value) {
  return "expected " + expected + ", got " +
         EscapeForTerminal(Truncate(value.dump(), 100));
}

// The checks below accept what models accept, and every value of another type,
// which is reported elsewhere.

// A string among `words`.
template <const auto& words>
std::string FindUnknown(const Json& value) {
  if (!value.is_string()) return "";
  const std::vector<std::string> known(words.begin(), words.end());
  const auto word = value.get<std::string>();
  if (std::ranges::find(known, word) != known.end()) return "";
  return FormatFault(Join(known, ", "), value) + DidYouMean(word, known);
}

// A number from `min` to `max`.
template <std::int64_t min,
          std::int64_t max = std::numeric_limits<std::int64_t>::max()>
std::string FindOutside(const Json& value) {
  if (!value.is_number()) return "";
  constexpr bool kIsBounded = max != std::numeric_limits<std::int64_t>::max();
  const bool is_above = kIsBounded && value > max;
  if (value >= min && !is_above) return "";
  const std::string low = std::to_string(min);
  return FormatFault(kIsBounded
                         ? "a number from " + low + " to " + std::to_string(max)
                         : "a number of at least " + low,
                     value);
}

std::string FindNotAbove0(const Json& value) {
  if (!value.is_number() || value > 0) return "";
  return FormatFault("a number above 0", value);
}

bool AreNumbers(const Json& value) {
  return std::ranges::all_of(value,
                             [](const Json& item) { return item.is_number(); });
}

std::string FindBadBetas(const Json& value) {
  if (!value.is_array()) return "";
  const bool is_valid = value.size() == 2 && AreNumbers(value) &&
                        std::ranges::all_of(value, [](const Json& beta) {
                          return beta >= 0 && beta < 1;
                        });
  return is_valid ? "" : FormatFault("two numbers from 0 to below 1", value);
}

std::string FindBadSplit(const Json& value) {
  if (!value.is_array()) return "";
  constexpr double kSumTolerance = 1e-6;  // that of RandomSplit
  double sum = 0;
  bool is_valid = AreNumbers(value);
  for (const Json& fraction : value) {
    is_valid = is_valid && fraction > 0;
    if (is_valid) sum += fraction.get<double>();
  }
  is_valid = is_valid && std::abs(sum - 1) <= kSumTolerance;
  return is_valid ? "" : FormatFault("fractions above 0 whose sum is 1", value);
}

constexpr auto kOptimizers = std::to_array<std::string_view>(
    {"sgd", "adam", "adamw", "rmsprop", "adagrad"});
constexpr auto kSchedules = std::to_array<std::string_view>(
    {"none", "step", "exponential", "cosine", "cosine_restarts", "polynomial",
     "cyclic", "one_cycle", "plateau"});
constexpr auto kDigitSets =
    std::to_array<std::string_view>({"auto", "mnist", "strokes"});
constexpr auto kFindBadSeed =
    FindOutside<0, std::numeric_limits<std::uint32_t>::max()>;
constexpr std::int64_t kMaxSide = 16'384;
constexpr std::int64_t kMaxCount = 1'000'000'000;

// Concatenates lists.
template <std::size_t... N>
constexpr std::array<HparamDoc, (N + ...)> Joined(
    const HparamDoc (&... lists)[N]) {
  std::array<HparamDoc, (N + ...)> all{};
  auto* end = all.data();
  ((end = std::copy_n(lists, N, end)), ...);
  return all;
}

// Hyperparameters that MakeOptimizer (models/optimizers.h) reads with the same
// defaults for every model.
constexpr HparamDoc kOptimizerHparams[] = {
    {"nesterov", "bool", "false",
     "sgd: Nesterov momentum; needs momentum, and dampening 0"},
    {"dampening", "float", "0", "sgd: dampening of the momentum"},
    {"betas", "list", "[0.9, 0.999]",
     "adam, adamw: decay rates of the moment averages", false, FindBadBetas},
    {"alpha", "float", "0.99", "rmsprop: decay rate of the average", false,
     FindOutside<0>},
    {"eps", "float", "1e-8", "added to the denominator; not of sgd", false,
     FindOutside<0>},
    {"amsgrad", "bool", "false",
     "adam, adamw: AMSGrad variant (maximum of second moments)"},
};

// Hyperparameters that MakeSchedule (models/optimizers.h) reads.
constexpr HparamDoc kScheduleHparams[] = {
    {"schedule", "string", "none",
     "none, step, exponential, cosine, cosine_restarts, polynomial, cyclic, "
     "one_cycle or plateau",
     false, FindUnknown<kSchedules>},
    {"schedule_epochs", "float", "10",
     "length of cosine, polynomial, one_cycle, a first restart and a cycle"},
    {"step_epochs", "float", "1", "epochs between steps of `step`"},
    {"gamma", "float", "0.1",
     "factor of step, plateau, each epoch exponential; lowest of cyclic", false,
     FindNotAbove0},
    {"power", "float", "1", "polynomial: power", false, FindNotAbove0},
    {"restart_factor", "int", "1",
     "cosine_restarts: how much longer each is than the one before", false,
     FindOutside<1, kMaxCount>},
    {"plateau_patience", "int", "2",
     "plateau: validations without improvement to wait", false, FindOutside<0>},
    {"plateau_metric", "string", "searcher.metric",
     "validation metric that plateau follows"},
    {"plateau_smaller_is_better", "bool", "the searcher's",
     "direction of plateau_metric; of another metric, what its name says"},
    {"warmup_epochs", "float", "0", "linear warm-up before the schedule", false,
     FindOutside<0>},
};

constexpr HparamDoc kOwnCNNHparams[] = {
    {"global_batch_size", "int", "", "samples in a batch, over all ranks"},
    {"data", "string", "''",
     "directory with CIFAR-10's .bin files, else DTRAIN_DATA or the cache"},
    {"split", "list", "[0.8, 0.2]",
     "fractions of the 50,000 for training and validation; sum 1", false,
     FindBadSplit},
    {"split_seed", "int", "0", "seed of the split", false, kFindBadSeed},
    {"optimizer", "string", "adam", "sgd, adam, adamw, rmsprop or adagrad",
     false, FindUnknown<kOptimizers>},
    {"lr", "float", "0.001", "learning rate", false, FindOutside<0>},
    {"momentum", "float", "0.9", "sgd only", false, FindOutside<0>},
    {"weight_decay", "float", "0", "L2 penalty; adamw: decoupled decay", false,
     FindOutside<0>},
    {"workers", "int", "4",
     "accepted for compatibility; no effect: the set is in memory", true},
    {"augment", "bool", "false",
     "random crops with a border of 4 black pixels, random flips"},
    {"own_kernels", "bool", "true",
     "dtrain's own convolutions on CPUs; false: LibTorch's"},
};
constexpr auto kCNNHparams =
    Joined(kOwnCNNHparams, kOptimizerHparams, kScheduleHparams);

constexpr HparamDoc kFaultHparams[] = {
    {"x", "float", "0.0", "loss is (x - 0.3)^2 + 1/(1 + step/100)"},
    {"step_ms", "float", "0", "duration of a batch"},
    {"crash_at", "int", "null", "step at which to exit immediately"},
    {"exit_code", "int", "1", "exit code of crash_at", false,
     FindOutside<0, 255>},
    {"abort_at", "int", "null", "step at which to abort by a signal"},
    {"hang_at", "int", "null", "step at which to sleep forever"},
    {"ignore_term", "bool", "false", "ignore SIGTERM"},
    {"nan_at", "int", "null", "step whose metrics are NaN"},
    {"inf_at", "int", "null", "step whose loss is infinite"},
    {"skip_metric_at", "int", "null", "step that reports no loss"},
    {"dup_metric_at", "int", "null", "step that reports lr a second time"},
    {"invalid_hp_at", "int", "null",
     "step at which to call the hyperparameters invalid"},
    {"label_out_of_range_at", "int", "null",
     "step whose label is out of range: a failed assertion on a GPU"},
    {"rss_mb", "int", "0", "memory to hold, in MiB"},
    {"device_mb", "int", "0", "memory to hold on the trial's device, in MiB"},
    {"log_bytes", "int", "0", "bytes to write to stdout at the start"},
    {"log_line", "int", "80", "length of their lines; 0: no newline"},
    {"log_hex", "string", "''", "bytes in hex to write to stdout unchanged"},
    {"spawn_daemon", "bool", "false", "leave a daemon that holds stdout"},
    {"ckpt_mb", "int", "0", "size of a checkpoint, in MiB"},
    {"once", "bool", "true", "faults fire in the trial's first process only"},
    {"metrics", "int", "0", "additional metrics in each batch"},
    {"global_batch_size", "int", "1", "samples that a batch counts as"},
    {"batches_per_epoch", "int", "100", "batches that make an epoch"},
};

constexpr HparamDoc kOwnLeNetHparams[] = {
    {"global_batch_size", "int", "", "samples in a batch, over all ranks"},
    {"dataset", "string", "auto",
     "mnist, strokes (drawn by dtrain), or auto: mnist if it is there", false,
     FindUnknown<kDigitSets>},
    {"data", "string", "''",
     "directory with MNIST's idx files, else DTRAIN_DATA or the cache"},
    {"dataset_seed", "int", "0", "seed of the digits that dtrain draws", false,
     kFindBadSeed},
    {"training_samples", "int", "0", "samples to train on; 0: all", false,
     FindOutside<0>},
    {"optimizer", "string", "sgd", "sgd, adam, adamw, rmsprop or adagrad",
     false, FindUnknown<kOptimizers>},
    {"lr", "float", "0.05", "learning rate; adam wants about 0.001", false,
     FindOutside<0>},
    {"momentum", "float", "0.9", "sgd only", false, FindOutside<0>},
    {"weight_decay", "float", "0", "L2 penalty; adamw: decoupled decay", false,
     FindOutside<0>},
    {"own_kernels", "bool", "true",
     "dtrain's own convolutions on CPUs; false: LibTorch's"},
};
constexpr auto kLeNetHparams =
    Joined(kOwnLeNetHparams, kOptimizerHparams, kScheduleHparams);

constexpr HparamDoc kOwnMNISTHparams[] = {
    {"global_batch_size", "int", "", "samples in a batch, over all ranks"},
    {"dataset", "string", "mnist",
     "mnist, strokes (drawn by dtrain), or auto: mnist if it is there", false,
     FindUnknown<kDigitSets>},
    {"data", "string", "''",
     "directory with MNIST's idx files, else DTRAIN_DATA or the cache"},
    {"dataset_seed", "int", "0", "seed of the digits that dtrain draws", false,
     kFindBadSeed},
    {"shuffle_buffer", "int", "10000", "samples to shuffle among; 0: all"},
    {"optimizer", "string", "sgd", "sgd, adam, adamw, rmsprop or adagrad",
     false, FindUnknown<kOptimizers>},
    {"lr", "float", "0.01", "learning rate; adam wants about 0.001", false,
     FindOutside<0>},
    {"momentum", "float", "0.9", "sgd only", false, FindOutside<0>},
    {"weight_decay", "float", "0", "L2 penalty; adamw: decoupled decay", false,
     FindOutside<0>},
    {"sens", "float", "1.0", "multiplies the gradients; not divided out"},
    {"custom_loop", "bool", "false", "log losses as the guide's own loop does"},
    {"own_kernels", "bool", "true",
     "dtrain's own convolutions on CPUs; false: LibTorch's"},
};
constexpr auto kMNISTHparams = Joined(kOwnMNISTHparams, kOptimizerHparams);

constexpr HparamDoc kOwnReluReduceMeanDenseHparams[] = {
    {"global_batch_size", "int", "", "samples in a batch, over all ranks"},
    {"dataset_seed", "int", "0", "seed of the synthetic batch", false,
     kFindBadSeed},
    {"optimizer", "string", "sgd", "sgd, adam, adamw, rmsprop or adagrad",
     false, FindUnknown<kOptimizers>},
    {"lr", "float", "0.1", "learning rate", false, FindOutside<0>},
    {"momentum", "float", "0.1", "sgd only", false, FindOutside<0>},
    {"weight_decay", "float", "0", "L2 penalty; adamw: decoupled decay", false,
     FindOutside<0>},
    {"sens", "float", "1.0", "multiplies the gradients; not divided out"},
};
constexpr auto kReluReduceMeanDenseHparams =
    Joined(kOwnReluReduceMeanDenseHparams, kOptimizerHparams);

constexpr HparamDoc kOwnXceptionHparams[] = {
    {"global_batch_size", "int", "", "samples in a batch, over all ranks"},
    {"num_classes", "int", "1000", "classes", false, FindOutside<1>},
    {"dataset_seed", "int", "0", "seed of the synthetic batch", false,
     kFindBadSeed},
    {"optimizer", "string", "sgd", "sgd, adam, adamw, rmsprop or adagrad",
     false, FindUnknown<kOptimizers>},
    {"lr", "float", "0.1", "learning rate; adam wants about 0.001", false,
     FindOutside<0>},
    {"momentum", "float", "0.9", "sgd only", false, FindOutside<0>},
    {"weight_decay", "float", "1e-5", "L2 penalty; adamw: decoupled decay",
     false, FindOutside<0>},
};
constexpr auto kXceptionHparams =
    Joined(kOwnXceptionHparams, kOptimizerHparams);

constexpr HparamDoc kOwnImageNetHparams[] = {
    {"global_batch_size", "int", "", "samples in a batch, over all ranks"},
    {"dataset", "string", "imagefolder", "imagefolder, cifar10 or fake", false,
     FindUnknown<kImageDatasets>},
    {"data", "string", "''",
     "directory with train/ and val/, else DTRAIN_DATA or the cache"},
    {"arch", "string", "resnet18",
     "a network of torchvision: resnet, resnext, wide_resnet, vgg, alexnet",
     false, FindUnknown<kImageArchs>},
    {"pretrained", "bool", "false", "start from torchvision's weights"},
    {"num_classes", "int", "1000", "outputs; a new head if not 1000", false,
     FindOutside<1, kMaxCount>},
    {"crop_size", "int", "224", "side of the network's input", false,
     FindOutside<1, kMaxSide>},
    {"resize_size", "int", "256 for 224",
     "shorter side before the central crop of validation", false,
     FindOutside<1, kMaxSide>},
    {"image_cache", "int", "0",
     "shorter side of images kept decoded on disk; 0: none are kept", false,
     FindOutside<0, kMaxSide>},
    {"drop_last", "bool", "false",
     "skip an epoch's last batch if it is not full"},
    {"workers", "int", "4", "threads that load images; 0: the trainer's own",
     false, FindOutside<0, 256>},
    {"fake_samples", "int", "1024", "images of `dataset: fake`", false,
     FindOutside<4, kMaxCount>},
    {"start-epoch", "int", "0", "epochs that `schedule: step` counts as done",
     false, FindOutside<0, 1'000'000>},
    {"dense1", "int", "128", "accepted for compatibility; no effect", true},
    {"optimizer", "string", "sgd", "sgd, adam, adamw, rmsprop or adagrad",
     false, FindUnknown<kOptimizers>},
    {"lr", "float", "0.1", "learning rate", false, FindOutside<0>},
    {"momentum", "float", "0.9", "sgd only", false, FindOutside<0>},
    {"weight_decay", "float", "1e-4", "L2 penalty; adamw: decoupled decay",
     false, FindOutside<0>},
    {"schedule", "string", "step",
     "none, step, exponential, cosine, cosine_restarts, polynomial, cyclic, "
     "one_cycle or plateau",
     false, FindUnknown<kSchedules>},
    {"step_epochs", "int", "2", "epochs between steps of `step`", false,
     FindOutside<1>},
    {"schedule_epochs", "float", "10",
     "length of cosine, polynomial, one_cycle, a first restart and a cycle"},
    {"gamma", "float", "0.1",
     "factor of step, plateau, each epoch exponential; lowest of cyclic", false,
     FindNotAbove0},
    {"power", "float", "1", "polynomial: power", false, FindNotAbove0},
    {"restart_factor", "int", "1",
     "cosine_restarts: how much longer each is than the one before", false,
     FindOutside<1, kMaxCount>},
    {"plateau_patience", "int", "2",
     "plateau: validations without improvement to wait", false, FindOutside<0>},
    {"plateau_metric", "string", "searcher.metric",
     "validation metric that plateau follows"},
    {"plateau_smaller_is_better", "bool", "the searcher's",
     "direction of plateau_metric; of another metric, what its name says"},
    {"warmup_epochs", "float", "0", "linear warm-up, except for `step`", false,
     FindOutside<0>},
};
constexpr auto kImageNetHparams =
    Joined(kOwnImageNetHparams, kOptimizerHparams);

// Sorted by name.
const ModelEntry kModels[] = {
    {"builtin:FaultTrial", "fails on request: for tests and benchmarks",
     kFaultHparams, MakeFaultTrial},
    {"cifar10:CNNTrial", "a small convolutional network on CIFAR-10",
     kCNNHparams, MakeCNNTrial, CheckCifar10},
    {"digits:LeNetTrial", "LeNet-5 on handwritten digits", kLeNetHparams,
     MakeLeNetTrial,
     [](const nlohmann::json& space, const ReadVariable& variable) {
       return CheckDigits(space, "auto", variable);
     }},
    {"lenet:MNISTTrial", "LeNet-5 on MNIST at 32x32, for data sinking",
     kMNISTHparams, MakeMNISTTrial,
     [](const nlohmann::json& space, const ReadVariable& variable) {
       return CheckDigits(space, "mnist", variable);
     }},
    {"lenet:ReLUReduceMeanDenseTrial", "a network of one dense layer of ones",
     kReluReduceMeanDenseHparams, MakeReluReduceMeanDenseTrial},
    {"model_def:ImageNetTrial", "ResNet, VGG and AlexNet on folders of images",
     kImageNetHparams, MakeImageNetTrial, CheckImageNet},
    {"xception:XceptionTrial", "Xception on one synthetic batch",
     kXceptionHparams, MakeXceptionTrial},
};

}  // namespace

std::span<const ModelEntry> ModelTable() { return kModels; }

const ModelEntry* FindModel(std::string_view entrypoint) {
  const auto found =
      std::ranges::find(kModels, entrypoint, &ModelEntry::entrypoint);
  return found == std::end(kModels) ? nullptr : found;
}

std::vector<std::string> Entrypoints() {
  std::vector<std::string> entrypoints;
  for (const ModelEntry& model : kModels) {
    entrypoints.emplace_back(model.entrypoint);
  }
  return entrypoints;
}

}  // namespace dtrain

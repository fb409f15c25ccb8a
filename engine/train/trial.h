#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "engine/base/api.h"
#include "engine/base/error.h"
#include "engine/data/data_source.h"
#include "engine/data/image_source.h"
#include "engine/train/lr_schedule.h"
#include "engine/wire/trial_message.h"

namespace dtrain {

/// Values of one batch by name: zero-dimensional tensors. They stay on the
/// device; the trainer averages them and copies once per report, so that a
/// metric costs no synchronisation.
using Metrics = std::map<std::string, torch::Tensor>;

/// Where in training a batch is, both from 0.
struct BatchIndex {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  // over all epochs
};

/// Where a training report comes, as people count.
struct ReportPoint {
  std::int64_t epoch = 0;   // from 1; with sinking, a sink is one
  std::int64_t epochs = 0;  // of this operation
  std::int64_t step = 0;    // of the epoch, from 1: the last one trained
};

/// How a validation metric is made from those of the batches.
enum class Reduction { kMean, kSum, kMin, kMax };

/// A validation metric of the whole set, such as AUC: `inputs` name what
/// EvaluateBatch returns for it (first dimension: the sample); they are
/// gathered over the set and all ranks and are no metrics themselves.
struct WholeSet {
  std::vector<std::string> inputs;
  std::function<double(const std::vector<torch::Tensor>& gathered)> compute;
};

using Reducer = std::variant<Reduction, WholeSet>;

/// What a model author writes: a constructor that takes a TrialContext&, and
/// four functions. The trainer owns the loop, the device, the checkpoints and
/// the reports. Every function is called from one thread.
class DTRAIN_API Trial {
 public:
  virtual ~Trial() = default;

  /// The stream of training batches; called once.
  virtual std::unique_ptr<DataSource> TrainingData() = 0;

  /// The validation set; called once. Null: the trial has none and is searched
  /// on its training metrics.
  virtual std::unique_ptr<DataSource> ValidationData() = 0;

  /// Trains on one batch: forward, context.Backward(loss),
  /// context.Step(*optimizer). Training mode and gradients are on.
  virtual Metrics TrainBatch(const Batch& batch, BatchIndex index) = 0;

  /// Whether TrainBatch asks the device for the same work at this batch as at
  /// any other of which it says so, given one of the same shapes: then that can
  /// be captured as a CUDA graph, and is replayed without TrainBatch being
  /// called. It must read no value from the device (item()), take no branch and
  /// no random number on the host, compute its metrics on the device, and
  /// change in place what it keeps from batch to batch.
  virtual bool Capturable(BatchIndex) const { return false; }

  /// Measures one batch of validation data. Evaluation mode is on, gradients
  /// are off. Values are means over the batch's samples; the trainer weights
  /// them by the batch's size.
  virtual Metrics EvaluateBatch(const Batch& batch) = 0;

  /// Called where a training report is made, for what a trial wants to say in
  /// its log.
  virtual void OnTrainingReport(const ReportPoint&) {}
  /// The same where a validation is done, with its metrics and those of the
  /// last training report.
  virtual void OnValidationReport(const ReportPoint&,
                                  const MetricValues& /*training*/,
                                  const MetricValues& /*validation*/) {}

  /// How validation metrics are reduced; those not named are means weighted by
  /// samples.
  virtual std::map<std::string, Reducer> Reducers() { return {}; }

  /// The test set for `dtrain evaluate --split test`; null if there is none.
  virtual std::unique_ptr<DataSource> TestData() { return nullptr; }

  /// What the model says of a batch without targets: for a classifier,
  /// probabilities of shape [samples, classes]. Undefined: cannot predict.
  virtual torch::Tensor Predict(const Batch& batch);

  /// What the model makes of a batch before it judges it, for `dtrain predict
  /// --features`: a tensor [samples, …]. Undefined: it has no such thing.
  virtual torch::Tensor Features(const Batch& batch);

  /// What becomes of an image file before the model sees it, for `dtrain
  /// predict` on images; nothing: the trial is none of images.
  virtual std::optional<ImageSteps> ImagePreparation() { return std::nullopt; }

  /// State of the trial's own that a checkpoint must carry: tensors by name,
  /// given back to Load when the trial goes on. Models, optimizers, schedulers
  /// and random states are saved without it.
  virtual std::map<std::string, torch::Tensor> Save() { return {}; }
  virtual void Load(const std::map<std::string, torch::Tensor>& state);
};

/// A trial whose model's classes have names: a second base of its class, beside
/// Trial. Checkpoints record the names for `dtrain predict`.
class DTRAIN_API NamedClasses {
 public:
  virtual ~NamedClasses() = default;

  /// The names by the classes' index; empty if the data have none.
  virtual std::vector<std::string> ClassNames() const = 0;
};

/// The names of the classes of `trial`, a Trial; empty if they have none.
template <typename Trial>
std::vector<std::string> ClassNamesOf(const Trial& trial) {
  const auto* named = dynamic_cast<const NamedClasses*>(&trial);
  return named == nullptr ? std::vector<std::string>() : named->ClassNames();
}

/// Limits gradients before an optimizer step.
struct Clip {
  std::optional<double> norm;   // total 2-norm over all parameters
  std::optional<double> value;  // each element to [−value, value]
};

/// A trial's view of dtrain. What is added here is moved to the device,
/// checkpointed and, with several ranks, kept equal on them. One thread.
class DTRAIN_API TrialContext {
 public:
  virtual ~TrialContext() = default;

  /// The whole map of hyperparameters of this trial, constants only.
  const nlohmann::json& hparams() const;
  /// The `data` section of the YAML.
  virtual const nlohmann::json& data() const = 0;
  virtual torch::Device device() const = 0;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  /// The trial's seed; every random generator was seeded from it.
  virtual std::uint32_t seed() const = 0;
  /// 0 in the trial's first process; restarts count up.
  virtual std::int64_t run() const = 0;
  /// Whether a checkpoint's weights will replace those that the constructor
  /// makes.
  virtual bool continues() const = 0;
  /// Batches trained so far.
  virtual std::int64_t batches() const = 0;
  /// The metric that the searcher compares trials by (`searcher.metric`), and
  /// its direction.
  virtual const std::string& searcher_metric() const = 0;
  virtual bool smaller_is_better() const = 0;

  /// Moves `model` to the device and keeps it in the checkpoints as `name`.
  /// Call it before building the optimizer.
  virtual void Add(const std::shared_ptr<torch::nn::Module>& model,
                   const std::string& name = "model") = 0;
  /// Keeps the optimizer in the checkpoints. REQUIRES: its parameters belong to
  /// models that were added. LBFGS is refused.
  virtual void Add(const std::shared_ptr<torch::optim::Optimizer>& optimizer,
                   const std::string& name = "optimizer") = 0;
  /// Lets `schedule` set the learning rates of an added optimizer: one step
  /// every `frequency` of what `mode` counts. Several schedules of one
  /// optimizer work one upon the other, in the order they were added.
  virtual void Add(LrSchedule schedule, torch::optim::Optimizer& optimizer,
                   StepMode mode, std::int64_t frequency = 1) = 0;

  /// loss.backward(`gradient`), which has the shape of the loss; undefined:
  /// ones. So a loss need not be one number. Accumulated gradients are divided
  /// by Step.
  virtual void Backward(const torch::Tensor& loss,
                        const torch::Tensor& gradient = {}) = 0;
  /// Steps the optimizer and zeroes its gradients, once every
  /// `aggregation_frequency` batches; `clip` in place of the YAML's.
  virtual void Step(torch::optim::Optimizer& optimizer, Clip clip = {}) = 0;
  /// Steps the schedules that were added as StepMode::kManual.
  virtual void StepSchedules() = 0;
  /// Ends the trial's training after this batch: it validates, checkpoints
  /// and counts as completed.
  virtual void RequestStop(const std::string& why) = 0;

  /// The hyperparameter `name` (dots reach into nested maps) as T: bool,
  /// integers, double, std::string, nlohmann::json. Throws Error(kFailed) if it
  /// is missing or of another type; an integer is a double too.
  template <typename T>
  T Get(const std::string& name) const;
  /// The same, or `fallback` where it is missing or null.
  template <typename T>
  T Get(const std::string& name, T fallback) const;

  /// Samples in a batch of this rank: global_batch_size // ranks. Throws
  /// Error(kFailed) where that is missing or 0.
  std::int64_t batch_size() const;

  /// Hyperparameters that nobody has asked for yet, sorted; dots reach into
  /// nested maps. None where the trial has asked for the whole map.
  std::vector<std::string> UnreadHparams() const;

 private:
  /// What hparams() gives.
  virtual const nlohmann::json& AllHparams() const = 0;

  const nlohmann::json* Find(const std::string& name) const;
  void RecordRead(const std::string& name) const { read_.insert(name); }

  mutable std::set<std::string> read_;
};

/// Thrown by a trial whose hyperparameters make no sense together: it ends as
/// invalid, without restarts, and the search replaces it.
class DTRAIN_API InvalidHyperparameters : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace internal {

/// `global_batch_size` of `hparams`; throws Error(kFailed) if it is missing,
/// no integer, or below 1. `why` says what needs it.
std::int64_t GlobalBatchSize(const nlohmann::json& hparams, const char* why);

/// `json` as T, or Error(kFailed) that names the hyperparameter.
template <typename T>
T HparamAs(const nlohmann::json& json, const std::string& name) {
  const auto wrong = [&](const char* type) {
    return Error(ErrorKind::kFailed, "hyperparameter '" + name +
                                         "': expected " + type + ", got " +
                                         json.dump());
  };
  if constexpr (std::is_same_v<T, nlohmann::json>) {
    return json;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) throw wrong("true or false");
  } else if constexpr (std::is_integral_v<T>) {
    if (!json.is_number_integer()) throw wrong("an integer");
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!json.is_number()) throw wrong("a number");
  } else {
    if (!json.is_string()) throw wrong("a string");
  }
  return json.get<T>();
}

}  // namespace internal

template <typename T>
T TrialContext::Get(const std::string& name) const {
  const nlohmann::json* found = Find(name);
  if (found == nullptr) {
    throw Error(ErrorKind::kFailed,
                "hyperparameter '" + name +
                    "' is missing; add it under 'hyperparameters'");
  }
  return internal::HparamAs<T>(*found, name);
}

template <typename T>
T TrialContext::Get(const std::string& name, T fallback) const {
  const nlohmann::json* found = Find(name);
  if (found == nullptr || found->is_null()) return fallback;
  return internal::HparamAs<T>(*found, name);
}

/// A trial that a library of a user's models gives to dtrain.
struct ExportedModel {
  std::string_view name;  // "MyTrial" of `entrypoint: model_def:MyTrial`
  std::unique_ptr<Trial> (*make)(TrialContext& context);
};

/// All that such a library gives. `abi` comes first, and the rest means what it
/// says only where that is the same as dtrain's own.
struct ExportedModels {
  const char* abi;
  const ExportedModel* trials;
  std::size_t count;
};

/// What the library's one symbol is: `const ExportedModels* DtrainTrials()`.
inline constexpr const char* kModelsSymbol = "DtrainTrials";
using ModelsFunction = const ExportedModels* (*)();

namespace internal {

// The text of a macro's arguments up to the next comma; takes it off `names`.
constexpr std::string_view NextName(std::string_view& names) {
  const std::size_t comma = names.find(',');
  std::string_view name = names.substr(0, comma);
  names.remove_prefix(comma == names.npos ? names.size() : comma + 1);
  while (name.starts_with(' ')) name.remove_prefix(1);
  while (name.ends_with(' ')) name.remove_suffix(1);
  return name;
}

template <typename T>
std::unique_ptr<Trial> MakeExportedTrial(TrialContext& context) {
  return std::make_unique<T>(context);
}

template <typename... Trials>
const ExportedModels* ExportModels(std::string_view names, const char* abi) {
  static const ExportedModel trials[] = {
      {NextName(names), MakeExportedTrial<Trials>}...};
  static const ExportedModels exported{abi, trials, sizeof...(Trials)};
  return &exported;
}

}  // namespace internal

}  // namespace dtrain

/// At the end of model_def.cpp, once: the trials that a YAML may name, as
/// DTRAIN_TRIALS(MyTrial, MyOtherTrial). Each is a class with a constructor
/// that takes a TrialContext&.
#define DTRAIN_TRIALS(...)                                                \
  extern "C" [[gnu::visibility("default")]] const dtrain::ExportedModels* \
  DtrainTrials() {                                                        \
    return dtrain::internal::ExportModels<__VA_ARGS__>(#__VA_ARGS__,      \
                                                       DTRAIN_ABI);       \
  }

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
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
#include "engine/base/metric_order.h"
#include "engine/data/data_source.h"
#include "engine/train/lr_schedule.h"

namespace dtrain {

struct ImageSteps;

/// Metrics of one batch by name: zero-dimensional tensors. They stay on the
/// device; the trainer reduces them there and copies them once per report, so
/// that a metric costs no synchronisation.
using Metrics = std::map<std::string, torch::Tensor>;

/// Position of a batch in training, both counted from 0.
struct BatchIndex {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  // over all epochs
};

/// Position of a training report, counted from 1.
struct ReportPoint {
  std::int64_t epoch = 0;   // a data sink counts as one epoch
  std::int64_t epochs = 0;  // of this operation
  std::int64_t step = 0;    // last trained step of the epoch
};

/// Computation of a validation metric from the values of the batches.
enum class Reduction { kMean, kSum, kMin, kMax };

/// A validation metric of the whole set, such as AUC. `inputs` names the
/// tensors that EvaluateBatch returns for it (first dimension: the sample).
/// They are concatenated over the set and all ranks, and are not reported as
/// metrics themselves.
struct WholeSet {
  std::vector<std::string> inputs;
  std::function<double(const std::vector<torch::Tensor>& gathered)> compute;
};

using Reducer = std::variant<Reduction, WholeSet>;

/// The interface that a model implements: a constructor that takes a
/// TrialContext&, and four functions. The trainer owns the loop, the device,
/// the checkpoints and the reports. All functions are called from one thread.
class DTRAIN_API Trial {
 public:
  virtual ~Trial() = default;

  /// Returns the stream of training batches. Called once.
  virtual std::unique_ptr<DataSource> TrainingData() = 0;

  /// Returns the validation set. Called once. Null if the trial has none; its
  /// training metrics then drive the search.
  virtual std::unique_ptr<DataSource> ValidationData() = 0;

  /// Trains on one batch: forward, context.Backward(loss),
  /// context.Step(*optimizer). Models are in training mode and gradients are
  /// on. On a GPU a few calls may precede the training, to measure (see
  /// ChooseMemoryFormat); what they change of models and of Save's state is
  /// restored.
  virtual Metrics TrainBatch(const Batch& batch, BatchIndex index) = 0;

  /// True if TrainBatch does the same work on the device for this batch as for
  /// every other batch of the same shapes for which it returns true. Such a
  /// step can be captured as a CUDA graph and replayed without calling
  /// TrainBatch. TrainBatch must then read no value from the device (item()),
  /// branch on nothing and draw no random number on the host, compute its
  /// metrics on the device, and update in place whatever it keeps from batch to
  /// batch.
  virtual bool Capturable(BatchIndex) const { return false; }

  /// Evaluates one batch of validation data. Models are in evaluation mode and
  /// gradients are off. Values are means over the batch's samples; the trainer
  /// weights them by the batch's size.
  virtual Metrics EvaluateBatch(const Batch& batch) = 0;

  /// Called at each training report. For log lines of the trial's own.
  virtual void OnTrainingReport(const ReportPoint&) {}
  /// Called after each validation, with its metrics and those of the last
  /// training report.
  virtual void OnValidationReport(const ReportPoint&,
                                  const MetricValues& /*training*/,
                                  const MetricValues& /*validation*/) {}

  /// Reductions of validation metrics by name. A metric not listed is the mean
  /// weighted by samples.
  virtual std::map<std::string, Reducer> Reducers() { return {}; }

  /// Returns the test set for `dtrain evaluate --split test`; null if there is
  /// none.
  virtual std::unique_ptr<DataSource> TestData() { return nullptr; }

  /// Predicts a batch without targets: for a classifier, probabilities float
  /// [samples, classes]. Undefined if the model cannot predict.
  virtual torch::Tensor Predict(const Batch& batch);

  /// Returns the output features (penultimate layer) of a batch, [samples, …],
  /// for `dtrain predict --features`. Undefined if the model has none.
  virtual torch::Tensor Features(const Batch& batch);

  /// Preprocessing of an image file for `dtrain predict` on images; empty if
  /// the model does not take images.
  virtual std::optional<ImageSteps> ImagePreparation();

  /// State of the trial itself that checkpoints must contain: tensors by name,
  /// passed to Load when training resumes. Models, optimizers, schedules and
  /// random states are saved without it.
  virtual std::map<std::string, torch::Tensor> Save() { return {}; }
  virtual void Load(const std::map<std::string, torch::Tensor>& state);
};

/// A second base class, beside Trial, for trials whose classes have names.
/// Checkpoints record the names for `dtrain predict`.
class DTRAIN_API NamedClasses {
 public:
  virtual ~NamedClasses() = default;

  /// Returns the names by class index; empty if the data has none.
  virtual std::vector<std::string> ClassNames() const = 0;
};

/// Names of the classes of `trial`, a Trial; empty if it has none.
template <typename Trial>
std::vector<std::string> GetClassNames(const Trial& trial) {
  const auto* named = dynamic_cast<const NamedClasses*>(&trial);
  return named == nullptr ? std::vector<std::string>() : named->ClassNames();
}

/// Limits on gradients before an optimizer step.
struct Clip {
  std::optional<double> norm;   // total 2-norm over all parameters
  std::optional<double> value;  // each element to [−value, value]
};

/// The services of dtrain for one trial. Objects added here are moved to the
/// device, saved in checkpoints and, with several ranks, kept equal on all of
/// them. Not thread-safe.
class DTRAIN_API TrialContext {
 public:
  virtual ~TrialContext() = default;

  /// All hyperparameters of this trial as one map, constants only. Counts all
  /// of them as read.
  const nlohmann::json& hparams() const;
  /// The `data` section of the YAML.
  virtual const nlohmann::json& data() const = 0;
  virtual torch::Device device() const = 0;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  /// Seed of the trial. All random generators have been seeded from it.
  virtual std::uint32_t seed() const = 0;
  /// Number of this process: 0 for the first, plus one for each restart.
  virtual std::int64_t run() const = 0;
  /// True if the weights of a checkpoint will replace those that the
  /// constructor makes.
  virtual bool continues() const = 0;
  /// Batches trained so far.
  virtual std::int64_t batches() const = 0;
  /// Metric that the searcher compares trials by (`searcher.metric`), and its
  /// direction.
  virtual const std::string& searcher_metric() const = 0;
  virtual bool smaller_is_better() const = 0;

  /// Moves `model` to the device and saves it in checkpoints as `name`. Call it
  /// before building the optimizer.
  virtual void Add(const std::shared_ptr<torch::nn::Module>& model,
                   const std::string& name = "model") = 0;
  /// Saves the optimizer in checkpoints. REQUIRES: its parameters belong to
  /// models added before. LBFGS is rejected.
  virtual void Add(const std::shared_ptr<torch::optim::Optimizer>& optimizer,
                   const std::string& name = "optimizer") = 0;
  /// Sets the learning rates of an added optimizer by `schedule`, which takes
  /// one step every `frequency` units of `mode`. Several schedules of one
  /// optimizer are applied one after the other, in the order in which they were
  /// added.
  virtual void Add(LrSchedule schedule, torch::optim::Optimizer& optimizer,
                   StepMode mode, std::int64_t frequency = 1) = 0;

  /// Calls loss.backward(`gradient`). `gradient` has the shape of `loss`, which
  /// need not be a scalar; undefined means ones. Step divides accumulated
  /// gradients.
  virtual void Backward(const torch::Tensor& loss,
                        const torch::Tensor& gradient = {}) = 0;
  /// Steps the optimizer and resets its gradients, once every
  /// `aggregation_frequency` batches. `clip`, if set, replaces the clipping in
  /// the YAML.
  virtual void Step(torch::optim::Optimizer& optimizer, Clip clip = {}) = 0;
  /// Steps the schedules added with StepMode::kManual.
  virtual void StepSchedules() = 0;
  /// Ends the trial's training after this batch. The trial still validates and
  /// checkpoints, and is COMPLETED.
  virtual void RequestStop(const std::string& why) = 0;

  /// Hyperparameter `name` (dots reach into nested maps) as T: bool, an integer
  /// type, double, std::string or nlohmann::json. Throws Error(kFailed) if it
  /// is missing, of another type or outside of T's range; an integer is
  /// accepted as a double.
  template <typename T>
  T Get(const std::string& name) const;
  /// Returns the value, or `fallback` if the hyperparameter is missing or null.
  template <typename T>
  T Get(const std::string& name, T fallback) const;

  /// Samples in a batch of this rank: global_batch_size / ranks, rounded down.
  /// Throws Error(kFailed) if that is missing or 0.
  std::int64_t batch_size() const;

  /// Names of the hyperparameters that have not been read yet, sorted; nested
  /// names are joined by dots. Empty once hparams() has been called.
  std::vector<std::string> UnreadHparams() const;

 private:
  /// Returns the map behind hparams().
  virtual const nlohmann::json& AllHparams() const = 0;

  const nlohmann::json* Find(const std::string& name) const;
  void RecordRead(const std::string& name) const { read_.insert(name); }

  mutable std::set<std::string> read_;
};

/// Thrown by a trial whose combination of hyperparameters is invalid. The trial
/// ends without restarts, and the searcher replaces it.
class DTRAIN_API InvalidHyperparameters : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace internal {

/// Value of `global_batch_size` in `hparams`. Throws Error(kFailed) if it is
/// missing, not an integer, or below 1; `why` states in the message which
/// feature needs it.
std::int64_t GlobalBatchSize(const nlohmann::json& hparams, const char* why);

/// True if T can hold the number `json`. REQUIRES: T is an integer or a float.
template <typename T>
bool IsInRange(const nlohmann::json& json) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    const auto number = json.get<double>();
    return !(number > Limits::max() || number < Limits::lowest()) ||
           number - number != 0;  // an infinity is one of every type
  } else if (json.is_number_unsigned()) {
    return json.get<std::uint64_t>() <=
           static_cast<std::uint64_t>(Limits::max());
  } else {
    const auto number = json.get<std::int64_t>();
    if (number >= 0) {
      return static_cast<std::uint64_t>(number) <=
             static_cast<std::uint64_t>(Limits::max());
    }
    return Limits::is_signed &&
           number >= static_cast<std::int64_t>(Limits::min());
  }
}

/// Converts `json` to T. Throws Error(kFailed) that names the hyperparameter,
/// and the bounds of T if the number is outside of them.
template <typename T>
T HparamAs(const nlohmann::json& json, const std::string& name) {
  const auto wrong = [&](const std::string& type) {
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
  if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
    if (!IsInRange<T>(json)) {
      const auto bound = [](T value) { return nlohmann::json(value).dump(); };
      const std::string range = bound(std::numeric_limits<T>::lowest()) +
                                " to " + bound(std::numeric_limits<T>::max());
      throw wrong(
          (std::is_integral_v<T> ? "an integer from " : "a number from ") +
          range);
    }
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

/// A model exported by a library that was compiled from a model_def.cpp.
struct ExportedModel {
  std::string_view name;  // "MyTrial" of `entrypoint: model_def:MyTrial`
  std::unique_ptr<Trial> (*make)(TrialContext& context);
};

/// All models of such a library. `abi` comes first; the other fields may be
/// read only if it equals that of dtrain.
struct ExportedModels {
  const char* abi;
  const ExportedModel* trials;
  std::size_t count;
};

/// Symbol exported by the library: `const ExportedModels* DtrainTrials()`.
inline constexpr const char* kModelsSymbol = "DtrainTrials";
using ModelsFunction = const ExportedModels* (*)();

namespace internal {

// Returns the text up to the next comma of a macro's arguments and removes it
// from `names`.
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

/// Exports the models that a YAML may name; once, at the end of model_def.cpp:
/// DTRAIN_TRIALS(MyTrial, MyOtherTrial). Each is a class derived from Trial
/// with a constructor that takes a TrialContext&.
#define DTRAIN_TRIALS(...)                                                \
  extern "C" [[gnu::visibility("default")]] const dtrain::ExportedModels* \
  DtrainTrials() {                                                        \
    return dtrain::internal::ExportModels<__VA_ARGS__>(#__VA_ARGS__,      \
                                                       DTRAIN_ABI);       \
  }

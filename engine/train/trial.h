#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <torch/types.h>

#include "engine/base/api.h"
#include "engine/data/data_source.h"
#include "engine/data/image_source.h"
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

}  // namespace dtrain

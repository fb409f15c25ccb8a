#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "engine/base/api.h"
#include "engine/train/lr_schedule.h"

namespace dtrain {

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
  void NoteRead(const std::string& name) const { read_.insert(name); }

  mutable std::set<std::string> read_;
};

/// Thrown by a trial whose hyperparameters make no sense together: it ends as
/// invalid, without restarts, and the search replaces it.
class DTRAIN_API InvalidHyperparameters : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace dtrain

#include "engine/train/trial_context_get.h"

#pragma once

#include <cstdint>
#include <memory>

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "engine/base/api.h"
#include "engine/data/batch_sampler.h"
#include "engine/data/data_source.h"
#include "engine/train/trial.h"

namespace dtrain {

/// Top-k accuracy: fraction of samples whose class is among the `k` largest of
/// their logits. `logits` [samples, classes], `target` int64 [samples]. Returns
/// a float64 scalar from 0 to 1 on the device of the logits (float32 has no
/// 0.73, and a mean of such values would miss a threshold that it reaches); 1
/// if there are at most `k` classes.
DTRAIN_API torch::Tensor TopKAccuracy(const torch::Tensor& logits,
                                      const torch::Tensor& target,
                                      std::int64_t k);

/// TopKAccuracy for k = 1; of equal logits the first counts.
DTRAIN_API torch::Tensor Accuracy(const torch::Tensor& logits,
                                  const torch::Tensor& target);

/// Usual sampling for training on `samples` samples: all of them every epoch,
/// shuffled by the trial's seed, dealt out to its ranks in full batches of
/// batch_size(). Throws Error(kFailed) as batch_size() does.
DTRAIN_API SamplerOptions TrainingSamples(const TrialContext& context,
                                          std::int64_t samples);

/// Usual sampling for validation: each sample once, in order, in batches of at
/// most `batch_size`.
DTRAIN_API SamplerOptions ValidationSamples(const TrialContext& context,
                                            std::int64_t samples,
                                            std::int64_t batch_size);

/// TensorSource for training on `set`, a set in memory, with TrainingSamples,
/// on the trial's device.
DTRAIN_API std::unique_ptr<DataSource> TrainingSource(
    const TrialContext& context, const Batch& set);

/// TensorSource for validation, in batches of at most `batch_size`.
DTRAIN_API std::unique_ptr<DataSource> ValidationSource(
    const TrialContext& context, const Batch& set,
    std::int64_t batch_size = 1000);

/// MindSpore's TrainOneStepCell: one training step for a given loss. `sens`
/// multiplies the gradients and, unlike the scale of mixed precision, is not
/// divided out again.
class OneStepCell {
 public:
  OneStepCell(TrialContext& context, torch::optim::Optimizer& optimizer,
              double sens = 1.0)
      : context_(context), optimizer_(optimizer), sens_(sens) {}

  /// Takes effect with the next step.
  void set_sens(double sens) { sens_ = sens; }
  double sens() const { return sens_; }

  /// Backward pass and optimizer step. `loss` may have any shape; all its
  /// values count. Returns the loss, detached.
  torch::Tensor Step(const torch::Tensor& loss) {
    context_.Backward(loss, torch::full_like(loss, sens_));
    context_.Step(optimizer_);
    return loss.detach();
  }

 private:
  TrialContext& context_;
  torch::optim::Optimizer& optimizer_;
  double sens_;
};

}  // namespace dtrain

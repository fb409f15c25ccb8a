#pragma once

#include <memory>

#include "engine/train/trial.h"
#include "models/building_blocks.h"
#include "models/data_sets.h"
#include "models/nets/conv_nets.h"

namespace dtrain {

/// The model of MindSpore's training guide: LeNet-5 on MNIST, resized to 32×32,
/// shuffled through a buffer of 10,000, for data sinking
/// (`optimizations.sink_size`). Metrics: loss in training, val_loss and
/// val_accuracy in validation.
class MNISTTrial final : public Trial {
 public:
  explicit MNISTTrial(TrialContext& context);

  std::unique_ptr<DataSource> TrainingData() override;
  std::unique_ptr<DataSource> ValidationData() override;
  Metrics TrainBatch(const Batch& batch, BatchIndex index) override;
  bool Capturable(BatchIndex) const override { return true; }
  Metrics EvaluateBatch(const Batch& batch) override;
  torch::Tensor Predict(const Batch& batch) override;
  std::optional<ImageSteps> ImagePreparation() override;
  void OnTrainingReport(const ReportPoint& point) override;

 private:
  std::unique_ptr<DataSource> Source(const ImageSet& set,
                                     const SamplerOptions& samples) const;

  TrialContext& context_;
  const bool custom_loop_;  // logs losses like the guide's custom loop
  DigitSets digits_;
  std::shared_ptr<LeNet5> net_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::unique_ptr<OneStepCell> cell_;
  torch::Tensor last_loss_;
};

/// The custom network of that guide: ReLU, mean, dense layer of ones, trained
/// on one synthetic batch with labels of zeros, so that each of the 32 losses
/// is 0.
class ReluReduceMeanDenseTrial final : public Trial {
 public:
  explicit ReluReduceMeanDenseTrial(TrialContext& context);

  std::unique_ptr<DataSource> TrainingData() override;
  std::unique_ptr<DataSource> ValidationData() override { return nullptr; }
  Metrics TrainBatch(const Batch& batch, BatchIndex index) override;
  Metrics EvaluateBatch(const Batch& batch) override;

 private:
  TrialContext& context_;
  std::shared_ptr<ReluReduceMeanDense> net_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::unique_ptr<OneStepCell> cell_;
};

/// Makers for models/table.cc.
std::unique_ptr<Trial> MakeMNISTTrial(TrialContext& context);
std::unique_ptr<Trial> MakeReluReduceMeanDenseTrial(TrialContext& context);

}  // namespace dtrain

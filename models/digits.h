#pragma once

#include <memory>

#include "engine/train/trial.h"
#include "models/data_sets.h"
#include "models/nets/conv_nets.h"

namespace dtrain {

/// LeNet-5 on handwritten digits. Metrics: loss and accuracy in training,
/// val_loss and val_accuracy in validation.
class LeNetTrial final : public Trial {
 public:
  explicit LeNetTrial(TrialContext& context);

  std::unique_ptr<DataSource> TrainingData() override;
  std::unique_ptr<DataSource> ValidationData() override;
  Metrics TrainBatch(const Batch& batch, BatchIndex index) override;
  bool Capturable(BatchIndex) const override { return true; }
  Metrics EvaluateBatch(const Batch& batch) override;
  torch::Tensor Predict(const Batch& batch) override;
  std::optional<ImageSteps> ImagePreparation() override;

 private:
  SamplerOptions TrainingSamples() const;
  std::unique_ptr<DataSource> Source(const ImageSet& set,
                                     const SamplerOptions& samples) const;

  TrialContext& context_;
  DigitSets digits_;
  std::shared_ptr<LeNet> net_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
};

/// Maker for models/table.cc.
std::unique_ptr<Trial> MakeLeNetTrial(TrialContext& context);

}  // namespace dtrain

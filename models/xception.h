#pragma once

#include <memory>

#include "engine/train/trial.h"
#include "models/nets/xception.h"

namespace dtrain {

/// SINGA's autograd example: Xception on one made-up batch, drawn once and
/// trained on again and again; no validation. Metrics: loss, accuracy.
class XceptionTrial final : public Trial {
 public:
  explicit XceptionTrial(TrialContext& context);

  std::unique_ptr<DataSource> TrainingData() override;
  std::unique_ptr<DataSource> ValidationData() override { return nullptr; }
  Metrics TrainBatch(const Batch& batch, BatchIndex index) override;
  bool Capturable(BatchIndex) const override { return true; }
  Metrics EvaluateBatch(const Batch& batch) override;
  torch::Tensor Predict(const Batch& batch) override;
  std::optional<ImageSteps> ImagePreparation() override;
  torch::Tensor Features(const Batch& batch) override;

 private:
  TrialContext& context_;
  const std::int64_t classes_;
  std::shared_ptr<Xception> net_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
};

/// The row of models/table.cc.
std::unique_ptr<Trial> MakeXceptionTrial(TrialContext& context);

}  // namespace dtrain

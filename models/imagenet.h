#pragma once

#include <memory>
#include <string>

#include "engine/train/trial.h"
#include "models/imagenet_data.h"
#include "models/nets/image_classifier.h"

namespace dtrain {

/// The classifier of Determined's porting tutorial, which ports PyTorch's
/// ImageNet example: a network of torchvision by its name, SGD, a learning rate
/// that falls every two epochs. Metrics: loss, top1, top5; val_loss, val_top1,
/// val_top5, the shares from 0 to 1.
class ImageNetTrial final : public Trial, public NamedClasses {
 public:
  explicit ImageNetTrial(TrialContext& context);

  std::unique_ptr<DataSource> TrainingData() override;
  std::unique_ptr<DataSource> ValidationData() override;
  Metrics TrainBatch(const Batch& batch, BatchIndex index) override;
  bool Capturable(BatchIndex) const override { return true; }
  Metrics EvaluateBatch(const Batch& batch) override;
  torch::Tensor Predict(const Batch& batch) override;
  torch::Tensor Features(const Batch& batch) override;
  std::optional<ImageSteps> ImagePreparation() override;
  std::vector<std::string> ClassNames() const override {
    return data_->class_names();
  }
  void OnValidationReport(const ReportPoint& point,
                          const MetricValues& training,
                          const MetricValues& validation) override;

 private:
  std::shared_ptr<ImageClassifier> MakeNet() const;
  void AddSchedule();
  SamplerOptions TrainingSamples() const;

  TrialContext& context_;
  std::unique_ptr<ImageNetData> data_;
  std::shared_ptr<ImageClassifier> net_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::size_t skipped_ = 0;  // files, that the log has told of
};

/// The row of models/table.cc.
std::unique_ptr<Trial> MakeImageNetTrial(TrialContext& context);

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/batch_sampler.h"
#include "engine/data/data_source.h"
#include "engine/data/image_source.h"
#include "engine/train/trial.h"
#include "models/nets/image_classifier.h"

namespace dtrain {

/// What ImageNetTrial is trained on.
class ImageNetData {
 public:
  virtual ~ImageNetData() = default;

  virtual std::int64_t classes() const = 0;
  /// Their names; empty if they have none.
  virtual std::vector<std::string> class_names() const { return {}; }
  /// The side of an image, in pixels.
  virtual std::int64_t side() const = 0;
  /// For the log: what it is and how many images there are.
  virtual std::string description() const = 0;
  /// What becomes of an image before the network sees it.
  virtual ImageSteps steps() const = 0;
  /// How many image files could not be read so far.
  virtual std::size_t skipped() const { return 0; }

  /// `samples` says all but how many there are.
  virtual std::unique_ptr<DataSource> Training(SamplerOptions samples) = 0;
  virtual std::unique_ptr<DataSource> Validation(SamplerOptions samples) = 0;
};

/// The data that the hyperparameter `dataset` names: imagefolder (train/ and
/// val/ under `data`, cropped to `crop_size`), cifar10 (32×32), or fake
/// (`fake_samples` made-up images of `crop_size`, `num_classes` classes).
/// Throws Error or InvalidHyperparameters that say what is missing or wrong.
std::unique_ptr<ImageNetData> OpenImageNetData(const TrialContext& context);

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

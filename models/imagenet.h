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

/// Data sets of ImageNetTrial.
class ImageNetData {
 public:
  virtual ~ImageNetData() = default;

  virtual std::int64_t classes() const = 0;
  /// Class names; empty if there are none.
  virtual std::vector<std::string> class_names() const { return {}; }
  /// Side of an image, in pixels.
  virtual std::int64_t side() const = 0;
  /// Name and number of images, for the log.
  virtual std::string description() const = 0;
  /// Preprocessing of images.
  virtual ImageSteps steps() const = 0;
  /// Number of unreadable image files so far.
  virtual std::size_t skipped() const { return 0; }

  /// `samples` without the number of samples, which is that of the set.
  virtual std::unique_ptr<DataSource> Training(SamplerOptions samples) = 0;
  virtual std::unique_ptr<DataSource> Validation(SamplerOptions samples) = 0;
};

/// Opens the data set named by the hyperparameter `dataset`: imagefolder
/// (train/ and val/ in `data`, cropped to `crop_size`), cifar10 (32×32), or
/// fake (`fake_samples` synthetic images of `crop_size`, `num_classes`
/// classes). Throws Error or InvalidHyperparameters for missing or invalid
/// data.
std::unique_ptr<ImageNetData> OpenImageNetData(const TrialContext& context);

/// The classifier of Determined's porting tutorial, which ports PyTorch's
/// ImageNet example: a network of torchvision, SGD, and a learning rate that
/// decays every two epochs. Metrics: loss, top1, top5, val_loss, val_top1 and
/// val_top5; accuracies are from 0 to 1.
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
  std::size_t skipped_ = 0;  // unreadable files already logged
};

/// Maker for models/table.cc.
std::unique_ptr<Trial> MakeImageNetTrial(TrialContext& context);

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/batch_sampler.h"
#include "engine/data/data_source.h"
#include "engine/data/image_source.h"
#include "engine/train/trial.h"

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

}  // namespace dtrain

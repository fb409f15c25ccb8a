#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/api.h"
#include "engine/train/torch_modules.h"

namespace dtrain {

/// A network that tells classes of colour images apart, named and ordered as
/// torchvision's, so that weights go in both directions. Make it with
/// std::make_shared.
class DTRAIN_API ImageClassifier : public torch::nn::Module {
 public:
  /// Logits [samples, classes] of `images` [samples, 3, height, width].
  torch::Tensor forward(const torch::Tensor& images) {
    return Classify(Features(images));
  }

  /// What the last layer judges: [samples, features].
  virtual torch::Tensor Features(const torch::Tensor& images) = 0;
  /// Logits of Features.
  virtual torch::Tensor Classify(const torch::Tensor& features) = 0;
  /// The name of the last layer, whose size is the number of classes.
  virtual std::string head() const = 0;
};

/// One of kImageArchs (models/image_archs.h), its weights drawn as torchvision
/// draws them. Throws Error(kFailed) for any other name.
DTRAIN_API std::shared_ptr<ImageClassifier> MakeImageClassifier(
    const std::string& arch, std::int64_t classes);

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <filesystem>
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

/// One of kImageArchs (models/data_files.h), its weights drawn as torchvision
/// draws them. Throws Error(kFailed) for any other name.
DTRAIN_API std::shared_ptr<ImageClassifier> MakeImageClassifier(
    const std::string& arch, std::int64_t classes);

/// What a last layer with another number of classes than the weights' means.
enum class OtherHead { kError, kKeepNew };

/// Copies the weights in `file` into `net`, by the rules of LoadWeights
/// (engine/train/tensor_file.h): safetensors, or a state dict of torch.save,
/// with the names and shapes of `net`. With OtherHead::kKeepNew the last layer,
/// `net.head()`, keeps its own weights where it has another number of classes.
/// Returns a line for the log. Throws Error(kFailed) that names the file and
/// the first difference.
DTRAIN_API std::string LoadPretrained(ImageClassifier& net,
                                      const std::filesystem::path& file,
                                      OtherHead other_head);

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "engine/base/api.h"
#include "engine/train/torch_modules.h"

namespace dtrain {

/// A classifier of colour images with the names and order of torchvision's
/// modules, so that weights can be exchanged in both directions. Create it with
/// std::make_shared.
class DTRAIN_API ImageClassifier : public torch::nn::Module {
 public:
  /// Logits [samples, classes] of `images` [samples, 3, height, width].
  torch::Tensor forward(const torch::Tensor& images) {
    return Classify(Features(images));
  }

  /// Output features (penultimate layer): [samples, features].
  virtual torch::Tensor Features(const torch::Tensor& images) = 0;
  /// Logits [samples, classes] of such features.
  virtual torch::Tensor Classify(const torch::Tensor& features) = 0;
  /// Name of the last layer, whose size is the number of classes.
  virtual std::string head() const = 0;
};

/// Averages `maps` [samples, channels, height, width] to [samples, channels,
/// side, side], as torch::adaptive_avg_pool2d does. The gradient is
/// deterministic on a GPU if LibTorch is asked for that: maps of this size are
/// returned as they are, and others are multiplied by averaging matrices,
/// because the gradient of adaptive_avg_pool2d has no deterministic variant
/// there. On CPUs the values are those of adaptive_avg_pool2d, to the bit.
DTRAIN_API torch::Tensor AverageToSquare(const torch::Tensor& maps,
                                         std::int64_t side);

/// Computes AverageToSquare by matrices, on any device; results may round
/// differently.
DTRAIN_API torch::Tensor AverageByMatrices(const torch::Tensor& maps,
                                           std::int64_t side);

/// Creates one of kImageArchs (models/data_files.h), initialised as in
/// torchvision. Throws Error(kFailed) for any other name.
DTRAIN_API std::shared_ptr<ImageClassifier> MakeImageClassifier(
    const std::string& arch, std::int64_t classes);

/// Treatment of a last layer whose number of classes differs from that of the
/// weights.
enum class OtherHead { kError, kKeepNew };

/// Copies the weights in `file` into `net`, by the rules of LoadWeights
/// (engine/train/tensor_file.h): safetensors, or a state dict of torch.save,
/// with the names and shapes of `net`. With OtherHead::kKeepNew, the last
/// layer, `net.head()`, keeps its own weights if its number of classes differs.
/// Returns a line for the log. Throws Error(kFailed) that names the file and
/// the first difference.
DTRAIN_API std::string LoadPretrained(ImageClassifier& net,
                                      const std::filesystem::path& file,
                                      OtherHead other_head);

}  // namespace dtrain

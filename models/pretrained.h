#pragma once

#include <filesystem>
#include <string>

#include "engine/base/api.h"
#include "models/nets/image_classifier.h"

namespace dtrain {

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

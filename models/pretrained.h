#pragma once

#include <filesystem>
#include <string>

#include "engine/base/api.h"
#include "models/nets/image_classifier.h"

namespace dtrain {

/// What a last layer with another number of classes than the weights' means.
enum class OtherHead { kError, kKeepNew };

/// Copies the weights of `file` (safetensors, or what torch.save wrote of a
/// state dict) into `net`: names and shapes must be the same, both ways. With
/// OtherHead::kKeepNew the last layer, `net.head()`, keeps its own weights
/// where it has another number of classes. Counters of batch normalisation may
/// be missing, as in files of PyTorch before 0.4.1. Returns what was loaded,
/// for the log. Throws Error(kFailed) that names the file and the first
/// difference.
DTRAIN_API std::string LoadPretrained(ImageClassifier& net,
                                      const std::filesystem::path& file,
                                      OtherHead other_head);

}  // namespace dtrain

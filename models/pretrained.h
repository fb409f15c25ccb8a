#pragma once

#include <filesystem>
#include <string>

#include "models/nets/image_classifier.h"

namespace dtrain {

/// Copies the weights of `file` (safetensors, or what torch.save wrote of a
/// state dict) into `net`: names and shapes must be the same, both ways. Only
/// the last layer, `net.head()`, keeps its own where it has another number of
/// classes; counters of batch normalisation may be missing, as in files of
/// PyTorch before 0.4.1. Returns what was loaded, for the log. Throws
/// Error(kFailed) that names the file and the first difference.
std::string LoadPretrained(ImageClassifier& net,
                           const std::filesystem::path& file);

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <memory>

#include "models/nets/image_classifier.h"

namespace dtrain {

/// VGG (Simonyan and Zisserman, arXiv:1409.1556) as torchvision has it: images
/// of at least 32×32. `layers` with weights: 11, 13, 16 or 19.
std::shared_ptr<ImageClassifier> MakeVgg(int layers, bool batch_norm,
                                         std::int64_t classes);

}  // namespace dtrain

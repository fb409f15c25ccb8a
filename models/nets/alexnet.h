#pragma once

#include <cstdint>
#include <memory>

#include "models/nets/image_classifier.h"

namespace dtrain {

/// AlexNet as torchvision has it (Krizhevsky, arXiv:1404.5997): images of at
/// least 63×63.
std::shared_ptr<ImageClassifier> MakeAlexNet(std::int64_t classes);

}  // namespace dtrain

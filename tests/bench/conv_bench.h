#pragma once

#include <nlohmann/json.hpp>

namespace dtrain {

/// What the convolutions of the LeNet and CIFAR-10 trials take on one thread,
/// forward and backward, by every variant of the kernels that runs here.
nlohmann::json ConvTimes();

}  // namespace dtrain

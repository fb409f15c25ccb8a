#pragma once

#include <string_view>

namespace dtrain {

/// Whether a state dict, or a checkpoint around one, may name this class or
/// function: containers, PyTorch's tensors, storages and element types.
bool IsKnownGlobal(std::string_view module, std::string_view name);

}  // namespace dtrain

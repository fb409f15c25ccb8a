#pragma once

#include <string>
#include <vector>

namespace dtrain {

/// What `--slots` asks for, as overrides of a configuration: nothing if it is
/// empty; `all` is every slot, for one model. Throws Error(kUsage) for a bare
/// number.
std::vector<std::string> SlotOverrides(const std::string& slots);

}  // namespace dtrain

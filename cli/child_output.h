#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"

namespace dtrain {

/// What the program prints on stdout, or none if it is not there, fails, or
/// takes longer than `limit` (it is killed then). Run without a shell, its
/// stderr closed.
std::optional<std::string> ChildOutput(const std::vector<std::string>& argv,
                                       Duration limit);

}  // namespace dtrain

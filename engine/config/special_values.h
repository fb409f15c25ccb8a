#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "engine/config/findings.h"
#include "engine/config/node.h"
#include "engine/config/schema.h"

namespace dtrain {

/// The types that only one or a few keys have: lengths, durations, slots
/// and the like. As `ReadValue`.
std::optional<nlohmann::json> ReadSpecialValue(const KeySpec& key,
                                               const Node& node,
                                               Findings& findings);

}  // namespace dtrain

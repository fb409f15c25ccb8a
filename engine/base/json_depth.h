#pragma once

#include <nlohmann/json.hpp>

namespace dtrain {

/// More levels than anything in dtrain nests, and far fewer than a stack holds.
inline constexpr int kMostJsonLevels = 100;

/// Whether lists and maps nest in `json` more than `levels` deep. To be asked
/// of what comes from a file or a socket: it can be parsed however deep it is,
/// but copying or printing it would run out of stack.
bool NestsDeeperThan(const nlohmann::json& json, int levels = kMostJsonLevels);

}  // namespace dtrain

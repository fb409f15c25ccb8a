#pragma once

#include <optional>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// `module:Trial` as a string, a command as a list of words. A command that is
/// written as one text is cut into words at blanks, quotes kept together; one
/// that needs a shell is refused, since none runs it.
std::optional<nlohmann::json> ReadEntrypoint(const Node& node,
                                             Findings& findings);

/// Warns of a trial that is not among `known` (if that is not empty).
void CheckEntrypoint(const nlohmann::json& entrypoint, Mark mark,
                     std::span<const std::string> known, Findings& findings);

}  // namespace dtrain

#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "engine/config/experiment_config.h"
#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// Returns `module:Trial` as a string, a command as a list of words. A command
/// in one string is split at blanks outside of quotes. A command that needs a
/// shell is refused, since none runs it.
std::optional<nlohmann::json> ReadEntrypoint(const Node& node,
                                             Findings& findings);

/// Reports a model that is not among the known ones, if there are any.
void CheckEntrypoint(const nlohmann::json& entrypoint, Mark mark,
                     const ReadOptions& options, Findings& findings);

}  // namespace dtrain

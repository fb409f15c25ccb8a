#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// `{NAME: value}` or `[NAME=value]` as a map of the names to null: values are
/// secrets, so no finding and no record has one.
std::optional<nlohmann::json> ReadEnvironment(const Node& node,
                                              const std::string& path,
                                              Findings& findings);

/// The variables that have a value, in order. REQUIRES: `ReadEnvironment`
/// found nothing wrong with `node`.
std::vector<std::pair<std::string, std::string>> EnvironmentValues(
    const Node& node);

}  // namespace dtrain

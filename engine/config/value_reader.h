#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/config/findings.h"
#include "engine/config/node.h"
#include "engine/config/schema.h"

namespace dtrain {

/// Returns the value of `key` in its canonical form, as in the effective
/// configuration; nothing, with a finding, if it is invalid. Not for sections
/// and for types with a reader of their own: constraints, entrypoint,
/// environment, hyperparameters, metrics and points. REQUIRES: `node` is not
/// null.
std::optional<nlohmann::json> ReadValue(const KeySpec& key, const Node& node,
                                        Findings& findings);

/// Returns a value of a free map or a constant hyperparameter; reports numbers
/// that JSON cannot represent.
nlohmann::json ReadFreeValue(const Node& node, const std::string& path,
                             Findings& findings);

/// Returns an integer in [least, most]; nothing, with a finding about `path`,
/// otherwise.
std::optional<std::int64_t> ReadInteger(const Node& node,
                                        const std::string& path,
                                        std::int64_t least, std::int64_t most,
                                        Findings& findings);

/// Reports "expected WHAT, got the string 'abc'", with a hint about quotes or
/// the notation of numbers.
void ReportType(const Node& node, const std::string& path,
                const std::string& what, Findings& findings);

}  // namespace dtrain

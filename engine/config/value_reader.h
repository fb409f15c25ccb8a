#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/config/findings.h"
#include "engine/config/node.h"
#include "engine/config/schema.h"

namespace dtrain {

/// The value of `key` in its canonical form, as it stands in the effective
/// configuration; nothing, and a finding, if it is not one. Not for sections,
/// hyperparameters and points. REQUIRES: `node` is not null.
std::optional<nlohmann::json> ReadValue(const KeySpec& key, const Node& node,
                                        Findings& findings);

/// `node` as it stands in a free map or as a constant hyperparameter; reports
/// numbers that JSON does not have.
nlohmann::json ReadFreeValue(const Node& node, const std::string& path,
                             Findings& findings);

/// An integer in [least, most], or a finding about `path`.
std::optional<std::int64_t> ReadInteger(const Node& node,
                                        const std::string& path,
                                        std::int64_t least, std::int64_t most,
                                        Findings& findings);

/// "expected WHAT, got the string 'abc'", with a hint where it is a matter of
/// quotes or of how a number is written.
void ReportType(const Node& node, const std::string& path,
                const std::string& what, Findings& findings);

/// The types that only one or a few keys have: lengths, durations, slots
/// and the like. As `ReadValue`.
std::optional<nlohmann::json> ReadSpecialValue(const KeySpec& key,
                                               const Node& node,
                                               Findings& findings);

}  // namespace dtrain

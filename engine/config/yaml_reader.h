#pragma once

#include <optional>
#include <string_view>

#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// Parses one YAML document into a tree of plain values, aliases expanded.
/// Findings are syntax errors, duplicate keys, merge keys, cycles, tags, a
/// second document, and whatever passes the limits: 1 MiB of text, 100,000
/// values and 4 MiB of text once expanded, 64 levels. Gives nothing if no
/// sensible tree is left. For an override `origin` is the mark of everything
/// in it.
std::optional<Node> ReadYaml(std::string_view text, Mark origin,
                             Findings& findings);

}  // namespace dtrain

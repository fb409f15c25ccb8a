#pragma once

#include <optional>
#include <string_view>

#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// Parses one YAML document into a tree of plain values, with aliases and merge
/// keys (`<<`) expanded. Reports syntax errors, duplicate keys, cycles,
/// unsupported tags, a second document, and exceeded limits: 1 MiB of text;
/// 100,000 values and 4 MiB of text after expansion; 64 levels. Returns nothing
/// after a fatal error. For an override, `origin` is the mark of all nodes.
std::optional<Node> ReadYaml(std::string_view text, Mark origin,
                             Findings& findings);

}  // namespace dtrain

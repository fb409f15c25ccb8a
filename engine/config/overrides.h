#pragma once

#include <span>
#include <string>

#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// Applies each `a.b=VALUE` to the tree, in order, adding missing maps. VALUE
/// is YAML: `[1, 2]`, `{epochs: 5}`, `1e-4`, `"5"`; an empty VALUE removes the
/// key. Keys of the file that cannot be combined with `a.b`, such as another
/// unit of a length, are removed.
void ApplyOverrides(std::span<const std::string> overrides, Node& root,
                    Findings& findings);

}  // namespace dtrain

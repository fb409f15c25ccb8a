#pragma once

#include <span>
#include <string>

#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// Puts each `a.b=VALUE` into the tree, in order, making maps that are
/// missing. VALUE is YAML: `[1, 2]`, `{epochs: 5}`, `1e-4`, `"5"`; nothing
/// behind the `=` removes the key. A key of the file that cannot be given
/// together with `a.b`, such as another unit of a length, is removed.
void ApplyOverrides(std::span<const std::string> overrides, Node& root,
                    Findings& findings);

}  // namespace dtrain

#pragma once

#include <string>

#include "engine/config/node.h"

namespace dtrain {

/// A plain (unquoted) scalar typed by the core schema of YAML 1.2, with one
/// addition: an underscore between two digits of a decimal number is dropped
/// (`60_000`). `yes`, `on` and `0b1` are strings, `010` is 10, `1e-4` a
/// number. A number that fits no 64-bit type becomes kOverflow.
Node PlainScalar(std::string text);

/// A quoted scalar: a string, whatever it looks like.
Node QuotedScalar(std::string text);

}  // namespace dtrain

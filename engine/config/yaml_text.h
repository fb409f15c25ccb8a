#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

// The text of YAML below its structure: characters, quotes and scalars.

/// Returns the line and column of byte `offset` of `text`.
Mark MarkAt(std::string_view text, std::size_t offset);

/// Reports text that is too long, has a byte order mark or control characters,
/// or is UTF-16 or invalid UTF-8. `origin` is the mark of findings if the text
/// is an override. Returns false if there is a finding.
bool CheckText(std::string_view text, Mark origin, Findings& findings);

/// True if a quote that opens at or after `offset`, after tags and anchors
/// only, is never closed. yaml-cpp would end it at the end of the text.
bool IsUnclosedQuote(std::string_view text, std::size_t offset);

/// Types a plain (unquoted) scalar by the core schema of YAML 1.2, with one
/// addition: an underscore between two digits of a decimal number is dropped
/// (`60_000`). `yes`, `on` and `0b1` are strings, `010` is 10, `1e-4` a
/// number. A number that fits no 64-bit type becomes kOverflow.
Node PlainScalar(std::string text);

/// Returns a quoted scalar, which is a string whatever its text.
Node QuotedScalar(std::string text);

}  // namespace dtrain

#pragma once

#include <cstddef>
#include <string_view>

#include "engine/config/findings.h"

namespace dtrain {

/// Where byte `offset` of `text` stands.
Mark MarkAt(std::string_view text, std::size_t offset);

/// Refuses what is no text to begin with: too large, a byte order mark,
/// UTF-16, invalid UTF-8, control characters. `origin` is the mark of findings
/// when the text is an override.
bool CheckText(std::string_view text, Mark origin, Findings& findings);

/// Whether a quote that opens at or after `offset`, behind tags and anchors
/// only, is never closed. yaml-cpp takes all the rest of the text for it.
bool IsUnclosedQuote(std::string_view text, std::size_t offset);

}  // namespace dtrain

#pragma once

#include <string_view>

#include "engine/base/api.h"

namespace dtrain {

/// Severity of a log line, numbered as in sd-daemon(3).
enum class LogLevel { kError = 3, kWarning = 4, kInfo = 6 };

/// Writes one line to standard error, from which the runner collects it:
/// "<6>text", after kLineBreak. Newlines in `text` become spaces. Thread-safe.
DTRAIN_API void LogLine(LogLevel level, std::string_view text);

}  // namespace dtrain

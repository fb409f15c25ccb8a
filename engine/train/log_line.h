#pragma once

#include <string_view>

#include "engine/base/api.h"

namespace dtrain {

/// Levels of log lines, as sd-daemon numbers them.
enum class LogLevel { kError = 3, kWarning = 4, kInfo = 6 };

/// Writes one line to standard error, where the runner collects it: "<6>text".
/// Newlines in `text` become spaces. Any thread.
DTRAIN_API void LogLine(LogLevel level, std::string_view text);

}  // namespace dtrain

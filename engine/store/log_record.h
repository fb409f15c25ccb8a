#pragma once

#include <string>
#include <string_view>

#include "engine/base/clock.h"

namespace dtrain {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// "debug", "info", "warning", "error", and back (throws Error(kUsage)).
std::string_view LogLevelName(LogLevel level);
LogLevel LogLevelFromName(std::string_view name);

/// One line that a rank wrote. `text` is as it was written, any bytes but a
/// newline. `partial`: cut at the longest line that is kept together (64 KiB);
/// the next record of the rank's stream goes on with it.
struct LogRecord {
  Timestamp time{0};
  int rank = 0;
  bool from_stderr = false;
  LogLevel level = LogLevel::kInfo;
  bool partial = false;
  std::string text;
};

}  // namespace dtrain

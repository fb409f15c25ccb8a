#include "engine/store/log_record.h"

#include <algorithm>
#include <array>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

constexpr std::array<std::string_view, 4> kLevels = {"debug", "info", "warning",
                                                     "error"};

}  // namespace

std::string_view LogLevelName(LogLevel level) {
  return kLevels[static_cast<std::size_t>(level)];
}

LogLevel LogLevelFromName(std::string_view name) {
  const auto found = std::find(kLevels.begin(), kLevels.end(), name);
  if (found != kLevels.end()) {
    return static_cast<LogLevel>(found - kLevels.begin());
  }
  throw Error(ErrorKind::kUsage, "unknown log level '" +
                                     EscapeForTerminal(name) +
                                     "'; choose debug, info, warning or error");
}

}  // namespace dtrain

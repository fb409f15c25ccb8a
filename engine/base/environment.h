#pragma once

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

namespace dtrain {

/// What an environment variable holds, or nothing: the door to the environment,
/// so that tests have their own.
using ReadVariable = std::function<std::optional<std::string>(const char*)>;

/// The environment of this process.
inline std::optional<std::string> ProcessVariable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace dtrain

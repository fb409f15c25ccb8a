#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "engine/base/error.h"

namespace dtrain {

/// Throws Error(kFailed): "cannot `what`: " and the text of `error`.
[[noreturn]] inline void ThrowSystemError(const std::string& what,
                                          int error = errno) {
  throw Error(ErrorKind::kFailed,
              "cannot " + what + ": " + std::generic_category().message(error));
}

}  // namespace dtrain

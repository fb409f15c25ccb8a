#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "engine/base/error.h"

namespace dtrain {

/// Returns the text of an errno value: "No such file or directory".
inline std::string ErrnoText(int error = errno) {
  return std::generic_category().message(error);
}

/// Throws Error(kFailed): "cannot `what`: " and the text of `error`.
[[noreturn]] inline void ThrowSystemError(const std::string& what,
                                          int error = errno) {
  throw Error(ErrorKind::kFailed, "cannot " + what + ": " + ErrnoText(error));
}

/// True if `error`, an errno value, says that a directory cannot be used now:
/// its disk or server fails, is read-only or gone, or the permission is.
inline bool IsStorageFault(int error) {
  return error == EACCES || error == EIO || error == ENOENT ||
         error == ENOTCONN || error == EPERM || error == EROFS ||
         error == ESTALE;
}

}  // namespace dtrain

#pragma once

#include <cstdlib>
#include <string>

#include <sys/types.h>
#include <unistd.h>

namespace dtrain {

/// True if files of the user `owner` count as this user's own: it is this user
/// or, under sudo, the one who called it.
inline bool IsOwnUser(uid_t owner) {
  const char* caller = ::geteuid() == 0 ? std::getenv("SUDO_UID") : nullptr;
  return owner == ::geteuid() ||
         (caller != nullptr && std::to_string(owner) == caller);
}

}  // namespace dtrain

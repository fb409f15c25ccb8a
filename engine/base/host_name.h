#pragma once

#include <array>
#include <string>

#include <unistd.h>

namespace dtrain {

/// What this machine calls itself, for people and to tell machines apart.
inline std::string HostName() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace dtrain

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <linux/magic.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace dtrain {

/// True if files of the user `owner` count as this user's own: it is this user
/// or, under sudo, the one who called it.
inline bool IsOwnUser(uid_t owner) {
  const char* caller = ::geteuid() == 0 ? std::getenv("SUDO_UID") : nullptr;
  return owner == ::geteuid() ||
         (caller != nullptr && std::to_string(owner) == caller);
}

/// True for a file system whose files the kernel makes up, as those of /proc:
/// what is read there is about a process, and nothing can be kept there.
inline bool IsKernelsOwn(const struct statfs& system) {
  constexpr std::array<std::uint32_t, 10> kMagic = {
      PROC_SUPER_MAGIC,    SYSFS_MAGIC,   DEBUGFS_MAGIC, TRACEFS_MAGIC,
      SECURITYFS_MAGIC,    BPF_FS_MAGIC,  NSFS_MAGIC,    CGROUP_SUPER_MAGIC,
      CGROUP2_SUPER_MAGIC, PSTOREFS_MAGIC};
  // The field is signed and 64 bits wide; the numbers are neither.
  return std::ranges::count(kMagic, static_cast<std::uint32_t>(system.f_type)) >
         0;
}

}  // namespace dtrain

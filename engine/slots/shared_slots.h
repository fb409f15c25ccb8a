#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// The slots that users of this machine have taken, in a directory for all:
/// `dtrain-slots` in /var/tmp, or in $DTRAIN_RUNTIME_DIR if other users have
/// access to it (mode 1777). For each slot and user it has a file
/// "gpu-0.1001", on which the holder keeps a write lock (fcntl(2), F_OFD_SETLK)
/// that a trial's processes inherit. Only its owner can lock it so, and nothing
/// is read from it: of another user no more is believed than that the slot is
/// taken while the lock is held.
class SharedSlots {
 public:
  /// Opens the directory and makes it if it is missing. One that cannot be
  /// made, that is a link or that users could delete each other's files in is
  /// not used: then all slots are free and Take succeeds.
  static SharedSlots Open();

  bool usable() const { return static_cast<bool>(directory_); }

  /// Returns the ID of another user who holds the slot, or a part of it.
  std::optional<uid_t> FindHolder(const std::string& slot) const;

  /// Takes part `part` of a slot (none: all of it) for as long as the result,
  /// or a copy of it in another process, is open. The result is not open if the
  /// directory is not usable. Nothing if another user holds the slot.
  /// REQUIRES: the caller holds the slot among the runners of this user.
  std::optional<UniqueFd> Take(const std::string& slot,
                               std::optional<int> part = std::nullopt) const;

  /// Path of the directory; empty if runners of this user share with nobody.
  static std::string Path();

 private:
  explicit SharedSlots(UniqueFd directory) : directory_(std::move(directory)) {}

  UniqueFd directory_;
};

/// Returns "user bob", or "user 1001" if the ID has no name.
std::string UserText(uid_t user);

}  // namespace dtrain

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// The directory in which all runners of this user on this machine agree on
/// slots: $DTRAIN_RUNTIME_DIR, or dtrain-UID in it if others may use it too;
/// else one in /var/tmp, which neither a logout nor a reboot clears, or, where
/// another user has taken its name, in $XDG_RUNTIME_DIR. Holds a file for each
/// slot, locked by who uses it, and one for each runner that waits.
class SlotDirectory {
 public:
  static std::filesystem::path Path();

  /// Makes it where it is missing. Throws Error(kResources) if it is not a
  /// directory that belongs to this user alone.
  static SlotDirectory Open();
  /// None where there is none; otherwise as `Open`.
  static std::optional<SlotDirectory> OpenExisting();

  /// Opens a file in it for reading and writing, and makes it if need be.
  /// Throws Error(kResources).
  UniqueFd OpenFile(const std::string& name) const;
  /// Opens a file that must be there for reading; holds none if it is not.
  UniqueFd OpenToRead(const std::string& name) const;
  void Remove(const std::string& name) const;
  /// The names that begin with `prefix`, ascending.
  std::vector<std::string> List(const std::string& prefix) const;

 private:
  explicit SlotDirectory(UniqueFd directory)
      : directory_(std::move(directory)) {}

  UniqueFd directory_;
};

/// Takes the flock on `file` if nobody else has it; never waits.
[[nodiscard]] bool TryLock(int file);

/// Replaces what is in `file`. A full disk leaves it empty: what is in these
/// files only helps people to understand who waits for whom.
void WriteContent(int file, const std::string& text);
std::string ReadContent(int file);

}  // namespace dtrain

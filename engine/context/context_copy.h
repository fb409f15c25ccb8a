#pragma once

#include <filesystem>

#include "engine/context/context_list.h"
#include "engine/context/working_tree.h"

namespace dtrain {

/// What the user may do with the files of a copy. Directories stay writable,
/// or nobody could remove it without chmod.
enum class CopyAccess { kReadOnly, kReadWrite };

/// Copies the files of `list` into the empty directory `to`, for this user
/// alone (0600 or 0400, programs 0700 or 0500), and has them and their
/// directories on the disk when it returns. Throws Error(kUsage) for one that
/// is not as it was listed, or was stored; Error(kDiskFull), Error(kStore) if
/// it cannot be written.
ContextManifest CopyContext(const ContextList& list,
                            const std::filesystem::path& to, CopyAccess access);

}  // namespace dtrain

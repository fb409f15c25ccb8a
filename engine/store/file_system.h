#pragma once

#include <filesystem>
#include <string>

#include "engine/store/layout.h"

namespace dtrain {

/// Kind of a file system, as far as it matters for a database that several
/// processes share.
struct FileSystem {
  enum class Kind {
    kLocal,     // or unknown
    kPerhaps,   // FUSE: local or networked
    kNetworked  // locks and shared memory do not reach other machines
  };
  Kind kind = Kind::kLocal;
  std::string name;  // "NFS"; empty for a local one
};

/// Returns the file system of `path` or, if that does not exist yet, of the
/// nearest directory above it. One that cannot be examined counts as local:
/// opening the path reports the reason.
FileSystem FindFileSystem(const std::filesystem::path& path);

/// Reserves a MiB of the store's disk for the last records before a full disk
/// stops a run; does nothing if the reserve exists, or the file system cannot
/// reserve space. Throws Error(kDiskFull) if that space is not available.
void KeepReserve(const StoreLayout& layout);

/// Frees the reserve, so that the end of a run can be recorded. False if there
/// was none.
bool FreeReserve(const StoreLayout& layout);

}  // namespace dtrain

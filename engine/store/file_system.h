#pragma once

#include <filesystem>
#include <string>

namespace dtrain {

/// The kind of file system that something lies on, as far as a database that
/// several processes share has to care.
struct FileSystem {
  enum class Kind {
    kLocal,     // or of a kind that is not known
    kPerhaps,   // FUSE: what is behind it, only its owner knows
    kNetworked  // locks and shared memory do not reach the other machines
  };
  Kind kind = Kind::kLocal;
  std::string name;  // "NFS"; empty for a local one
};

/// Of `path` or, where it is not there yet, of the nearest directory above it.
/// What cannot be looked at is taken for local: opening it will say why.
FileSystem FileSystemOf(const std::filesystem::path& path);

/// Whether a database on a network may be written to.
enum class NetworkWrites { kRefused, kAllowed };

}  // namespace dtrain

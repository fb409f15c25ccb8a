#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dtrain {

/// An entry of an archive.
struct ArchiveEntry {
  std::string name;
  std::string text;
  enum class Kind { kFile, kDirectory, kSymlink, kHardlink, kFifo };
  Kind kind = Kind::kFile;  // `text` of a link is its target
};

/// Writes a .tar.gz archive, or a zip archive if `path` ends with ".zip".
void WriteArchive(const std::filesystem::path& path,
                  const std::vector<ArchiveEntry>& entries);

}  // namespace dtrain

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dtrain {

/// What an archive of a test's own holds.
struct ArchiveEntry {
  std::string name;
  std::string text;
  enum class Kind { kFile, kDirectory, kSymlink, kHardlink, kFifo };
  Kind kind = Kind::kFile;  // of a link, `text` is where it leads
};

/// Writes a .tar.gz archive, or a zip archive where `path` ends with ".zip".
void WriteArchive(const std::filesystem::path& path,
                  const std::vector<ArchiveEntry>& entries);

}  // namespace dtrain

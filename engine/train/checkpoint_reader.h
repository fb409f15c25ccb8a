#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace dtrain {

/// A checkpoint's files, whole and verified.
class CheckpointFiles {
 public:
  /// Reads the checkpoint at `path`. Throws Error(kFailed) that names the file
  /// if one is missing, is none of the checkpoint's, or is not, to the bit,
  /// what the manifest says.
  static CheckpointFiles Read(const std::string& path);

  bool Has(const std::string& name) const { return files_.contains(name); }
  /// The file's bytes; empty if there is none of this name.
  std::span<const std::byte> operator[](const std::string& name) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::map<std::string, std::vector<std::byte>> files_;
};

}  // namespace dtrain

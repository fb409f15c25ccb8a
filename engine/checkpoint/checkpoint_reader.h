#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// A checkpoint's files, whole and verified.
class CheckpointFiles {
 public:
  /// Reads the checkpoint at `path`. Throws Error(kDamaged) that names the file
  /// if one is missing, is no file, or is not, to the bit, what the manifest
  /// says; Error(kFailed) if it may not be read.
  static CheckpointFiles Read(const std::string& path);

  bool Has(const std::string& name) const { return files_.contains(name); }
  /// The file's bytes; empty if there is none of this name.
  std::span<const std::byte> operator[](const std::string& name) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::map<std::string, std::vector<std::byte>> files_;
};

/// Verifies the checkpoint at `path` as `CheckpointFiles::Read` does, but keeps
/// none of it in memory beyond its `state.json`, which is given back parsed (a
/// discarded value if it is no JSON).
nlohmann::json CheckCheckpoint(const std::string& path);

/// What the record says of a checkpoint.
struct CheckpointSummary {
  std::int64_t batches = 0;
  double epoch = 0;
  std::int64_t bytes = 0;
  std::map<std::string, std::string> files;  // name → SHA-256, manifest too
};

/// Learns that from the checkpoint at `path` itself, without reading more than
/// its manifest and its state. Throws as `CheckpointFiles::Read` does.
CheckpointSummary SummarizeCheckpoint(const std::string& path);

}  // namespace dtrain

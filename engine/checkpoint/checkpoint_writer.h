#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// The name of a checkpoint's table of contents.
inline constexpr char kManifestName[] = "MANIFEST.json";
/// The name of the file that says where in its training the trial was.
inline constexpr char kStateName[] = "state.json";
/// Where the files lie that a command saved.
inline constexpr char kProgramFiles[] = "files";
/// What the directory of a checkpoint is called beyond its name until it is
/// whole.
inline constexpr std::string_view kUnfinishedSuffix = ".tmp";

/// What a finished checkpoint is made of.
struct WrittenCheckpoint {
  std::map<std::string, std::string> files;  // name → SHA-256, manifest too
  std::int64_t bytes = 0;
};

/// The text of the manifest of `files`: for each name {"bytes", "sha256"}.
std::string ManifestText(const nlohmann::json& files);

/// Writes one checkpoint directory so that it is there either whole and durable
/// or not at all: into `<path>.tmp`, each file synced, the manifest last, then
/// renamed. Every member throws Error(kFailed), or Error(kDiskFull), that names
/// the file and the cause; what was written is removed unless `Commit`
/// returned.
class CheckpointWriter {
 public:
  /// Makes the directory, and the one it lies in if that is missing. REQUIRES:
  /// nobody else writes `path`.
  explicit CheckpointWriter(std::string path);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter();

  /// Refuses early, Error(kDiskFull), where the file system has less free than
  /// twice the `bytes` that are to be written: the record needs some, too.
  void RequireSpace(std::int64_t bytes) const;

  /// Writes the file `name` from `pieces`, one behind the other. A name with
  /// slashes lies in directories that are made as needed. REQUIRES: no part of
  /// it is empty, "." or "..".
  void Write(const std::string& name,
             std::span<const std::span<const std::byte>> pieces);
  void Write(const std::string& name, std::string_view text);

  /// Writes the file `name` from what `source`, named `from`, reads to its end,
  /// piece by piece. Throws Error(kFailed) too if that cannot be read.
  void Copy(const std::string& name, int source, const std::string& from);

  /// Writes the manifest and gives the directory its name.
  [[nodiscard]] WrittenCheckpoint Commit();

 private:
  // A file that is being written.
  struct Entry;

  [[noreturn]] void Fail(const std::string& name, int error) const;
  void Create(Entry& entry);
  void Append(Entry& entry, std::span<const std::byte> bytes) const;
  void Finish(Entry& entry);
  void MakeParents(const std::string& name);
  void Sync(int fd, const std::string& name) const;

  const std::string path_;
  const std::string temporary_;
  UniqueFd parent_;
  UniqueFd directory_;
  nlohmann::json entries_ = nlohmann::json::object();
  WrittenCheckpoint written_;
  std::set<std::string> subdirectories_;
  bool renamed_ = false;
  bool committed_ = false;
};

}  // namespace dtrain

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// Name of a checkpoint's table of contents.
inline constexpr char kManifestName[] = "MANIFEST.json";
/// Name of the file with the trial's position in its training.
inline constexpr char kStateName[] = "state.json";
/// Name of the directory of the files that a command saved.
inline constexpr char kProgramFiles[] = "files";
/// Suffix of a checkpoint's directory until it is complete.
inline constexpr std::string_view kUnfinishedSuffix = ".tmp";

/// Name of a checkpoint's file of weights.
inline constexpr char kWeightsName[] = "model.safetensors";
/// Name of the checkpoint that a trial of Task::kLoad writes in its directory.
inline constexpr char kImportedDirectory[] = "imported";

/// Names of the predictions that a trial writes in its directory, in the form
/// of a checkpoint: a safetensors file with the model's `output` [samples, …]
/// as floats and, if each target is one number, `target` [samples]; and a JSON
/// list of the classes' names, which may be empty.
inline constexpr char kPredictionDirectory[] = "predictions";
inline constexpr char kPredictionFile[] = "predictions.safetensors";
inline constexpr char kClassNameFile[] = "classes.json";

/// Files of a finished checkpoint.
struct WrittenCheckpoint {
  std::map<std::string, std::string> files;  // name → SHA-256, manifest too
  std::int64_t bytes = 0;
};

/// Returns the text of the manifest of `files`: for each name {"bytes",
/// "sha256"}.
std::string ManifestText(const nlohmann::json& files);

/// Writes one checkpoint directory that is afterwards complete and durable or
/// does not exist: into `<path>.tmp`, each file synced, the manifest last, then
/// renamed. Every member throws Error(kFailed), or Error(kDiskFull), that names
/// the file and the cause. The destructor removes everything unless `Commit`
/// returned.
class CheckpointWriter {
 public:
  /// Creates the directory, and its parent if that is missing. REQUIRES: `path`
  /// has no other writer.
  explicit CheckpointWriter(std::string path);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter();

  /// Throws Error(kDiskFull) early if the free space is less than twice the
  /// `bytes` to write: the record needs space, too.
  void RequireSpace(std::int64_t bytes) const;

  /// Writes `pieces`, one after the other, to the file `name`. Directories in
  /// the name are created as needed. REQUIRES: no part of it is empty, "." or
  /// "..".
  void Write(const std::string& name,
             std::span<const std::span<const std::byte>> pieces);
  void Write(const std::string& name, std::string_view text);

  /// Copies the descriptor `source`, named `from` in errors, to its end into
  /// the file `name`. Throws Error(kFailed) too if it cannot be read.
  void Copy(const std::string& name, int source, const std::string& from);

  /// Writes the manifest and renames the directory.
  [[nodiscard]] WrittenCheckpoint Commit();

 private:
  // File that is being written.
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

/// The files of a checkpoint, complete and verified.
class CheckpointFiles {
 public:
  /// Reads the checkpoint at `path`. Throws Error(kDamaged) that names a file
  /// if it is missing, not a regular file, or differs from the manifest by a
  /// bit; Error(kFailed) if it cannot be read for another reason.
  static CheckpointFiles Read(const std::string& path);

  bool Has(const std::string& name) const { return files_.contains(name); }
  /// Returns the file's bytes; empty if there is no file of this name.
  std::span<const std::byte> operator[](const std::string& name) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::map<std::string, std::vector<std::byte>> files_;
};

/// Verifies the checkpoint at `path` as `CheckpointFiles::Read` does, but reads
/// it in pieces. Returns its `state.json`, parsed (a discarded value if it is
/// not JSON).
nlohmann::json CheckCheckpoint(const std::string& path);

/// Facts about a checkpoint that the store records.
struct CheckpointSummary {
  std::int64_t batches = 0;
  double epoch = 0;
  std::int64_t bytes = 0;
  std::map<std::string, std::string> files;  // name → SHA-256, manifest too
  // Lines of its trial's reports that the runner had not acknowledged by then.
  std::vector<std::string> unacknowledged;
};

/// Writes `trainer`, which replaces that of the checkpoint `uuid`: it has the
/// reports of the checkpoint's count that its trial made later, when no runner
/// was there to record them. `directory` is the trial's; it has one such file.
/// False, with errno set, if it cannot be written.
[[nodiscard]] bool WriteLateReports(const std::string& directory,
                                    const std::string& uuid,
                                    const nlohmann::json& trainer);
/// Returns that `trainer`; nothing if there is none of this checkpoint.
std::optional<nlohmann::json> ReadLateReports(const std::string& directory,
                                              const std::string& uuid);

/// Reads those facts from the checkpoint at `path` itself: only its manifest
/// and its state. Throws as `CheckpointFiles::Read` does.
CheckpointSummary SummarizeCheckpoint(const std::string& path);

}  // namespace dtrain

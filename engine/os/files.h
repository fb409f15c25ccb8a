#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <ios>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>

#include "engine/base/clock.h"
#include "engine/os/unique_fd.h"

namespace dtrain {

/// Bytes and the object that keeps them alive: a mapped file or memory. Copies
/// share them.
struct SharedBytes {
  std::shared_ptr<const void> owner;
  std::span<const std::uint8_t> bytes;
};

/// Maps a file for reading; all processes share its pages. Returns nothing if
/// the file cannot be opened, is empty, a symbolic link or not a regular file.
/// Truncating a mapped file kills its readers with SIGBUS, so write such a file
/// under another name, rename it, and never write to it again.
std::optional<SharedBytes> MapFile(const std::filesystem::path& file);

/// Returns the contents of a file, or its first `max_bytes`; nothing, with
/// errno set, if it cannot be opened or read.
std::optional<std::string> ReadFile(
    const std::filesystem::path& file,
    std::size_t max_bytes = std::numeric_limits<std::size_t>::max());

/// Returns when a file was last modified, to the microsecond.
Timestamp ModificationTime(const struct stat& status);

/// Returns the last `max_bytes` of a file; empty if it cannot be opened.
std::string ReadTail(const std::filesystem::path& file,
                     std::streamoff max_bytes);

/// Throws Error(kDiskFull) or Error(kStore) with the file, the reason (`error`
/// is an errno value) and the remedy.
[[noreturn]] void CannotWrite(const std::filesystem::path& path, int error);

/// Writes all of `bytes` to `fd`. False, with errno set, if it cannot.
[[nodiscard]] bool WriteFully(int fd, std::span<const std::byte> bytes);

/// Writes all of `bytes` to `fd`, an open file at `path`. Throws as
/// CannotWrite.
void WriteBytes(int fd, std::span<const std::byte> bytes,
                const std::filesystem::path& path);

/// fsync of `fd`, an open file at `path`. Throws as CannotWrite.
void SyncFile(int fd, const std::filesystem::path& path);

/// fsync of a directory: makes renames and new names in it survive a power cut.
/// Throws as CannotWrite.
void SyncDirectory(const std::filesystem::path& path);

/// A file that is written piece by piece and appears under its name only when
/// it is complete and on the disk: a crash or power cut leaves the old file or
/// the whole new one. Until then its bytes are in a temporary file beside it,
/// whose name ends in .tmp and which the destructor removes. Functions return
/// false, with errno set, on failure; call no more of them then. One thread.
class DurableFile {
 public:
  enum class Existing { kReplace, kKeep };

  /// Creates the temporary file; tests false if it cannot. `mode` as for
  /// open(2).
  explicit DurableFile(std::filesystem::path path, mode_t mode = 0600);
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  ~DurableFile();

  explicit operator bool() const { return static_cast<bool>(file_); }
  [[nodiscard]] bool Write(std::span<const std::byte> bytes);
  [[nodiscard]] bool Write(std::string_view text);
  /// Syncs the file, renames it and syncs its directory. With kKeep, fails with
  /// EEXIST if a file of this name exists.
  [[nodiscard]] bool Commit(Existing existing = Existing::kReplace);

 private:
  bool Rename(Existing existing);

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty once it has its name
  UniqueFd file_;
};

/// Replaces or creates `path` by a DurableFile. Throws as CannotWrite, leaving
/// the old file.
void WriteFileDurably(const std::filesystem::path& path, std::string_view text,
                      mode_t mode = 0600);

/// True if `owner` is this user or, under sudo, the user who called it.
bool IsOwnUser(uid_t owner);

/// True for a file system without storage, such as /proc or /sys: its files
/// describe processes and devices.
bool IsKernelFileSystem(const struct statfs& system);

/// A temporary directory, removed with its contents by the destructor.
class ScratchDirectory {
 public:
  /// `path()` is empty if none could be made.
  ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Hash of a list of files (path, size, modification time) and texts, in order:
/// a key for data prepared from them, such as a cache of decoded images.
class FileSetKey {
 public:
  /// For a file that is missing or unreadable only the path counts.
  void Add(const std::filesystem::path& file);
  void AddText(std::string_view text);

  std::uint64_t value() const { return value_; }

 private:
  void Mix(std::uint64_t value);

  std::uint64_t value_ = 0;
};

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"

namespace dtrain {

/// A file of a stored context.
struct StoredFile {
  std::string path;  // within the context: "a/b.txt"
  std::int64_t bytes = 0;
  bool executable = false;
  std::string sha256;

  friend bool operator==(const StoredFile&, const StoredFile&) = default;
};

/// List of a stored context's files, by path. Stored in a file beside it, so
/// that files which trials wrote there are distinguished from the user's.
struct ContextManifest {
  std::vector<StoredFile> files;

  std::int64_t bytes() const;
  /// Returns it as text: for each file its SHA-256, `x` (executable) or `-`,
  /// its size and its path, separated by blanks and terminated by a zero byte.
  std::string Text() const;
  /// Returns the SHA-256 of `Text`: equal for equal paths, modes and contents.
  std::string Hash() const;
  /// Parses the result of `Text`. Throws Error(kDamaged) naming `where` for
  /// anything else.
  static ContextManifest Parse(std::string_view text, const std::string& where);
};

/// Returns the path of the ContextManifest beside the stored context `master`.
std::filesystem::path ContextListPath(const std::filesystem::path& master);

/// Returns the temporary name of `tree` while it is being made.
std::filesystem::path NewTree(const std::filesystem::path& tree);

/// Makes `tree`, a copy of the stored context `master` in which one trial
/// works, for this user alone (0700; files 0600, programs 0700): by reflinks if
/// the file system has them, else by copies, never by hard links; with the
/// links of ReadContextOrigin. After a crash it is complete or missing. An
/// existing one stays as the trial left it; only files that a power failure
/// truncated and missing links are made again. Returns WorkingDirectory. Throws
/// Error(kDiskFull), Error(kStore), Error(kFailed).
std::filesystem::path MakeWorkingTree(const std::filesystem::path& master,
                                      const std::filesystem::path& tree);

/// Returns the copy of `master` in `tree`: `tree` itself, or a directory below
/// it if links lead up. Throws Error(kFailed).
std::filesystem::path WorkingDirectory(const std::filesystem::path& master,
                                       const std::filesystem::path& tree);

/// Removes from `tree` the files that are equal to those of `master`, the links
/// that were made with it, the directories that become empty, and an unfinished
/// tree left by a crash. Files that the trial wrote stay, and so do those that
/// cannot be read or removed. Links are not followed. REQUIRES: no process
/// works in it.
void TidyWorkingTree(const std::filesystem::path& master,
                     const std::filesystem::path& tree);

/// A file that a trial wrote in its working tree.
struct WrittenFile {
  std::string path;  // within WorkingDirectory: "a/b.txt"
  std::int64_t bytes = 0;
  Timestamp modified{0};
};

/// Returns the regular files of WorkingDirectory that are not equal to those of
/// `master`, by path; none without a tree. Links are not followed, and Python's
/// caches and what cannot be examined are left out.
std::vector<WrittenFile> ListWrittenFiles(const std::filesystem::path& master,
                                          const std::filesystem::path& tree);

/// True if copies of a file in `directory` share its disk blocks (reflinks).
bool SharesBlocks(const std::filesystem::path& directory);

}  // namespace dtrain

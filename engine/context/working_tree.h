#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// A file of a stored context.
struct StoredFile {
  std::string path;  // within the context: "a/b.txt"
  std::int64_t bytes = 0;
  bool executable = false;
  std::string sha256;

  friend bool operator==(const StoredFile&, const StoredFile&) = default;
};

/// What a stored context has, by path. Lies beside it as a file, so that what
/// trials write into it is told from what the user gave.
struct ContextManifest {
  std::vector<StoredFile> files;

  std::int64_t bytes() const;
  /// The whole of it as text: for each file its SHA-256, `x` or `-`, its bytes
  /// and its path, with blanks between and a zero byte behind.
  std::string Text() const;
  /// The SHA-256 of `Text`: the same for the same paths, modes and contents.
  std::string Hash() const;
  /// What `Text` wrote. Throws Error(kDamaged) for anything else; `where` is
  /// named.
  static ContextManifest Parse(std::string_view text, const std::string& where);
};

/// The list of the files of the stored context `master`, as a ContextManifest,
/// lies beside it.
std::filesystem::path ListFileOf(const std::filesystem::path& master);

/// Where `tree` is being made before it gets its name.
std::filesystem::path NewTree(const std::filesystem::path& tree);

/// Makes `tree`, the copy of the stored context `master` that one trial works
/// in, for this user alone (0700; files 0600, programs 0700): by reflinks where
/// the file system has them, else by copies, never by hard links. A crash
/// leaves no half of one. One that is there stays as the trial left it; only a
/// copy that a power failure cut is made again. Throws Error(kDiskFull),
/// Error(kStore), Error(kFailed).
void MakeWorkingTree(const std::filesystem::path& master,
                     const std::filesystem::path& tree);

/// Removes from `tree` the files whose contents are those of `master`, the
/// directories that this empties, and what a crash left of its making. The rest
/// is what the trial wrote: it stays. Links are not followed. What cannot be
/// looked at or removed stays. REQUIRES: no process works in it.
void TidyWorkingTree(const std::filesystem::path& master,
                     const std::filesystem::path& tree);

/// True if copies of a file in `directory` share its blocks on the disk.
bool SharesBlocks(const std::filesystem::path& directory);

}  // namespace dtrain

#pragma once

#include <cstdint>
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

}  // namespace dtrain

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "engine/os/files.h"

namespace dtrain {

/// A file written by `--out`, complete or not at all: its bytes go to a
/// temporary file beside it, whose name ends in .tmp. Throws Error(kUsage) if
/// the file exists and may not be replaced, Error(kFailed) if it cannot be
/// written.
class NewFile {
 public:
  /// `replace`: an existing regular file of this name is replaced.
  NewFile(std::filesystem::path path, bool replace);

  void Write(std::span<const std::byte> bytes);
  /// The file is durable under its name when this returns. REQUIRES: the last
  /// call.
  void Keep();

  std::int64_t bytes() const { return bytes_; }

 private:
  [[noreturn]] void Fail(int error) const;
  void RequireAbsent() const;

  std::filesystem::path path_;
  bool replace_;
  std::optional<DurableFile> file_;
  std::int64_t bytes_ = 0;
};

}  // namespace dtrain

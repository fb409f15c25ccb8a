#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// A file that `--out` names, written piece by piece: it is there whole or not
/// at all. Until then its bytes lie beside it, under a name that ends in .tmp.
/// Throws Error(kUsage) if the file is there and may not be replaced,
/// Error(kFailed) that names it and what to do if it cannot be written.
class NewFile {
 public:
  /// `replace`: a file of this name gives way to the new one.
  NewFile(std::filesystem::path path, bool replace);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  /// Leaves nothing behind unless it was kept.
  ~NewFile();

  void Write(std::span<const std::byte> bytes);
  /// The file is durable under its name when this returns. REQUIRES: the last
  /// call.
  void Keep();

  std::int64_t bytes() const { return bytes_; }

 private:
  [[noreturn]] void Fail(int error) const;
  void RequireAbsent() const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  bool replace_;
  UniqueFd file_;
  std::int64_t bytes_ = 0;
};

}  // namespace dtrain

#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include <stdlib.h>

namespace dtrain {

/// A directory for what is needed for a moment; goes with its contents.
class ScratchDirectory {
 public:
  /// `path()` is empty where none could be made.
  ScratchDirectory() {
    std::error_code ignored;
    std::string name =
        std::filesystem::temp_directory_path(ignored) / "dtrain-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace dtrain

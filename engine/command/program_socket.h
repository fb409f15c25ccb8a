#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/os/files.h"
#include "engine/os/unique_fd.h"

namespace dtrain {

/// A Unix socket that a program may connect to where a launcher has lost its
/// descriptors. One thread.
class ProgramSocket {
 public:
  /// Listens in `directory`, or where its path would be too long for a socket,
  /// in a directory for temporary files. Throws Error(kFailed).
  explicit ProgramSocket(const std::filesystem::path& directory);
  /// Removes it.
  ~ProgramSocket();
  ProgramSocket(const ProgramSocket&) = delete;
  ProgramSocket& operator=(const ProgramSocket&) = delete;

  const std::string& path() const { return path_; }
  /// Readable when somebody wants to connect.
  int fd() const { return fd_.get(); }
  /// The connection; not open if nobody waits any more.
  UniqueFd Accept();

 private:
  std::optional<ScratchDirectory> elsewhere_;
  std::string path_;
  UniqueFd fd_;
};

}  // namespace dtrain

#pragma once

#include <string>
#include <string_view>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// A file in memory that holds `bytes`, to be read from its beginning.
class ByteFile {
 public:
  explicit ByteFile(std::string_view bytes);

  /// A path under which this process can open it.
  std::string path() const;
  /// The descriptor, given away.
  UniqueFd Release() { return std::move(fd_); }

 private:
  UniqueFd fd_;
};

}  // namespace dtrain

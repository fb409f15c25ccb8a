#include "tests/fuzz/byte_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz_checks.h"

namespace dtrain {

ByteFile::ByteFile(std::string_view bytes)
    : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
  Require(static_cast<bool>(fd_), "a file in memory can be made");
  const auto size = static_cast<ssize_t>(bytes.size());
  Require(::write(fd_.get(), bytes.data(), bytes.size()) == size,
          "a file in memory can be written");
  ::lseek(fd_.get(), 0, SEEK_SET);
}

std::string ByteFile::path() const {
  return "/proc/self/fd/" + std::to_string(fd_.get());
}

}  // namespace dtrain

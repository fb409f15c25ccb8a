#include "engine/base/mapped_file.h"

#include <cstddef>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "engine/base/unique_fd.h"

namespace dtrain {

std::optional<SharedBytes> MapFile(const std::filesystem::path& file) {
  const UniqueFd fd(
      ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return std::nullopt;
  if (!S_ISREG(status.st_mode) || status.st_size == 0) return std::nullopt;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* start =
      ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), /*offset=*/0);
  if (start == MAP_FAILED) return std::nullopt;
  return SharedBytes{
      .owner = std::shared_ptr<const void>(
          start, [start, size](const void*) { ::munmap(start, size); }),
      .bytes = {static_cast<const std::uint8_t*>(start), size}};
}

}  // namespace dtrain

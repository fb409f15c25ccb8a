#include "engine/store/runner_probe.h"

#include <filesystem>
#include <system_error>

#include <fcntl.h>

#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

bool IsHeld(const std::filesystem::path& lock) {
  const UniqueFd file(::open(lock.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return false;
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  return ::fcntl(file.get(), F_OFD_GETLK, &range) == 0 &&
         range.l_type != F_UNLCK;
}

}  // namespace

bool HasRunner(const StoreLayout& layout) {
  std::error_code error;
  std::filesystem::directory_iterator entry(layout.Experiments(), error);
  for (const std::filesystem::directory_iterator end; !error && entry != end;
       entry.increment(error)) {
    if (IsHeld(entry->path() / "runner.lock")) return true;
  }
  return false;
}

}  // namespace dtrain

#include "engine/data/set_cache.h"

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <stdlib.h>

#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

bool WriteWhole(int fd, std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  return true;
}

// Under another name first; durable before it gets its own.
void Keep(const fs::path& file, std::span<const std::uint8_t> bytes) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  std::string name = file.string() + ".XXXXXX";
  UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));
  if (!fd) return;
  const bool written = WriteWhole(fd.get(), bytes) && ::fsync(fd.get()) == 0;
  if (!written || ::rename(name.c_str(), file.c_str()) != 0) {
    ::unlink(name.c_str());
  }
}

}  // namespace

SharedBytes OpenSet(const CachedSet& set) {
  if (!set.file.empty()) {
    std::optional<SharedBytes> mapped = MapFile(set.file);
    if (mapped && set.valid(mapped->bytes)) return *std::move(mapped);
  }
  const auto built =
      std::make_shared<const std::vector<std::uint8_t>>(set.build());
  if (!set.file.empty()) Keep(set.file, *built);
  return {.owner = built, .bytes = *built};
}

fs::path CacheDirectory(const ReadVariable& variable) {
  if (const auto cache = variable("XDG_CACHE_HOME"); cache && !cache->empty()) {
    return fs::path(*cache) / "dtrain";
  }
  if (const auto home = variable("HOME"); home && !home->empty()) {
    return fs::path(*home) / ".cache" / "dtrain";
  }
  return {};
}

}  // namespace dtrain

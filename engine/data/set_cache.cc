#include "engine/data/set_cache.h"

#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "engine/os/files.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// Without the cache the set is built again next time, so failures are ignored.
void Keep(const fs::path& path, std::span<const std::uint8_t> bytes) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  DurableFile file(path);
  if (file && file.Write(std::as_bytes(bytes))) {
    static_cast<void>(file.Commit());
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

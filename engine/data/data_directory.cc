// Where data sets and caches of built sets are. A set is looked for in each
// place in turn, and a place counts only if it has all files of the set, so a
// partly copied set elsewhere is not mixed in. A cached set that cannot be
// read, does not have the right size or cannot be written is no error: it is
// built again.

#include "engine/data/data_directory.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "engine/base/text.h"
#include "engine/os/files.h"

namespace dtrain {

namespace {

namespace fs = std::filesystem;

// Value of a variable that is set and not empty.
std::optional<std::string> Set(const ReadVariable& variable, const char* name) {
  std::optional<std::string> value = variable(name);
  if (value && value->empty()) value.reset();
  return value;
}

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

}  // namespace

fs::path ExpandHome(const std::string& path, const ReadVariable& variable) {
  const bool home = path == "~" || path.starts_with("~/");
  const std::optional<std::string> directory = Set(variable, "HOME");
  if (!home || !directory) return path;
  return fs::path(*directory) /
         path.substr(std::min<std::size_t>(2, path.size()));
}

std::string NamePlaces(std::span<const fs::path> places) {
  std::vector<std::string> names;
  for (const fs::path& place : places) {
    names.push_back(EscapeForTerminal(place.string()));
  }
  return names.empty() ? "nowhere, since neither DTRAIN_DATA nor HOME is set"
                       : Join(names, ", ");
}

DataDirectory::DataDirectory(const std::string& data,
                             const ReadVariable& variable) {
  if (!data.empty()) {
    places_.push_back(ExpandHome(data, variable));
    fetch_to_ = " --to " +
                EscapeForTerminal(QuotePathForShell(places_.front().string()));
    return;
  }
  if (const auto named = Set(variable, "DTRAIN_DATA")) {
    places_.push_back(ExpandHome(*named, variable));
  }
  if (const fs::path cache = CacheDirectory(variable); !cache.empty()) {
    places_.push_back(cache / "data");
  }
  if (places_.empty()) fetch_to_ = " --to DIRECTORY";
}

std::optional<fs::path> DataDirectory::Find(
    const std::string& set, std::span<const std::string> files) const {
  for (const fs::path& place : places_) {
    for (const fs::path& directory : {place, place / set}) {
      const bool all = std::ranges::all_of(files, [&](const std::string& file) {
        return PlainOrGzip(directory / file).has_value();
      });
      if (all) return directory;
    }
  }
  return std::nullopt;
}

std::string DataDirectory::MissingMessage(const std::string& set,
                                          std::span<const std::string> files,
                                          const std::string& fetched) const {
  return "no " + (fetched.empty() ? set : fetched) + " data; looked in " +
         NamePlaces(places_) + " (and " + set + "/ there); " +
         (fetched.empty()
              ? ""
              : NamedCommand(FetchCommand(fetched)) + " downloads it; or ") +
         "put " + Join(files, ", ") +
         " (or each with .gz) into a directory and name it in the "
         "hyperparameter 'data' or in DTRAIN_DATA";
}

std::string DataDirectory::FetchCommand(const std::string& fetched) const {
  return "dtrain data fetch " + fetched + fetch_to_;
}

std::optional<fs::path> PlainOrGzip(const fs::path& file) {
  if (IsFile(file)) return file;
  fs::path packed = file;
  packed += ".gz";
  if (IsFile(packed)) return packed;
  return std::nullopt;
}

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

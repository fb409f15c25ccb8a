// Links in a trial's working directory to directories outside the context, so
// that relative paths of a program such as ../data lead where they led before.
// AddContextLink decides for one path: it refuses what cannot be linked, and
// merges a link with those that contain it or lie in it. A path that climbs
// above the context makes the copy lie as many directories deep (`below`), so
// that the link has a place.

#include "engine/context/context_links.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/os/files.h"
#include "engine/os/process.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// A network file system may take a millisecond for each.
constexpr std::int64_t kMaxCounted = 20'000;

[[noreturn]] void Refuse(std::string_view path, const std::string& why) {
  throw Error(ErrorKind::kUsage,
              "context.links: '" + std::string(path) + "' " + why);
}

bool IsWithin(const std::string& path, const std::string& directory) {
  return path.starts_with(directory + "/");
}

}  // namespace

bool IsInside(const fs::path& path, const fs::path& root) {
  return std::ranges::mismatch(path, root).in2 == root.end();
}

const ContextLink& ContextOrigin::Add(std::string_view path, bool declared) {
  const fs::path given(path);
  if (given.is_absolute()) {
    Refuse(path,
           "is an absolute path, which programs reach without a link; leave "
           "it out");
  }
  // How many directories above its beginning the path reaches.
  int ascent = 0;
  int depth = 0;
  for (const fs::path& part : given) {
    if (part == "..") {
      ascent = std::max(ascent, --depth * -1);
    } else if (part != "." && !part.empty()) {
      ++depth;
    }
  }
  if (ascent >= std::distance(directory.begin(), directory.end())) {
    Refuse(path, "leads above the root directory; correct it");
  }
  fs::path target = (directory / given).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();
  std::string name = target.lexically_relative(directory).string();
  if (!IsValidUtf8(target.string())) {
    Refuse(path, "is in a directory whose name is not UTF-8; rename it");
  }
  std::error_code ignored;
  const bool exists = fs::exists(target, ignored);
  if (!exists && (path.starts_with('~') || path.find('$') != path.npos)) {
    Refuse(path,
           "does not exist, and only a shell replaces '~' and '$'; write the "
           "path itself, or nothing if it is absolute: programs reach such a "
           "path without a link");
  }
  if (exists && !fs::is_directory(target, ignored)) {
    Refuse(path,
           "is not a directory; name the one that contains it, or its absolute "
           "path in the program");
  }
  fs::path real = fs::weakly_canonical(target, ignored);
  if (real.empty()) real = target;  // cannot be examined
  if (IsInside(directory, real)) {
    Refuse(path, "leads to " + real.string() +
                     ", which contains the experiment's own files; name a "
                     "directory of data");
  }
  const ContextLink* around = nullptr;
  for (const ContextLink& link : links) {
    const bool inside = IsWithin(name, link.path);
    if (!inside && !IsWithin(link.path, name)) continue;
    if (link.declared) {
      Refuse(path, std::string(inside ? "is in" : "contains") + " '" +
                       link.path + "', which is linked too; name one of them");
    }
    if (inside && !declared) around = &link;
  }
  if (ascent > std::distance(below.begin(), below.end())) {
    below.clear();
    for (auto part = std::prev(directory.end(), ascent);
         part != directory.end(); ++part) {
      below /= *part;
    }
  }
  if (around != nullptr) return *around;
  std::erase_if(links, [&](const ContextLink& link) {
    return IsWithin(name, link.path) || IsWithin(link.path, name);
  });
  const auto same = std::ranges::find(links, name, &ContextLink::path);
  if (same != links.end()) {
    same->declared = same->declared || declared;
    return *same;
  }
  return links.emplace_back(std::move(name), std::move(target), declared);
}

bool ContextOrigin::Reaches(std::string_view path) const {
  if (links.empty() || fs::path(path).is_absolute()) return false;
  const std::string name = (directory / path)
                               .lexically_normal()
                               .lexically_relative(directory)
                               .string();
  return std::ranges::any_of(links, [&](const ContextLink& link) {
    return name == link.path || IsWithin(name, link.path);
  });
}

std::string ContextOrigin::Text() const {
  nlohmann::json json = {{"directory", directory.string()},
                         {"below", below.string()},
                         {"links", nlohmann::json::array()}};
  if (const std::string& bytes = directory.native(); !IsValidUtf8(bytes)) {
    json["directory_bytes"] =
        std::vector<std::uint8_t>(bytes.begin(), bytes.end());
  }
  for (const ContextLink& link : links) {
    json["links"].push_back({{"path", link.path},
                             {"target", link.target.string()},
                             {"declared", link.declared}});
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

ContextOrigin ContextOrigin::Parse(std::string_view text,
                                   const std::string& where) try {
  const auto json = nlohmann::json::parse(text);
  ContextOrigin origin{.directory = json.at("directory").get<std::string>(),
                       .below = json.at("below").get<std::string>()};
  if (json.contains("directory_bytes")) {
    const auto bytes =
        json.at("directory_bytes").get<std::vector<std::uint8_t>>();
    origin.directory = std::string(bytes.begin(), bytes.end());
  }
  for (const auto& link : json.at("links")) {
    origin.links.push_back({.path = link.at("path").get<std::string>(),
                            .target = link.at("target").get<std::string>(),
                            .declared = link.at("declared").get<bool>()});
  }
  return origin;
} catch (const nlohmann::json::exception&) {
  throw Error(ErrorKind::kDamaged,
              where +
                  ": is not a list of links; it is damaged: restore it from a "
                  "backup");
}

fs::path ContextOriginPath(const fs::path& master) {
  fs::path file = master;
  return file += ".links";
}

ContextOrigin ReadContextOrigin(const fs::path& master) try {
  const fs::path file = ContextOriginPath(master);
  const auto text = ReadFile(file);
  if (text) return ContextOrigin::Parse(*text, file.string());
  std::error_code error;
  if (!fs::exists(file, error) && !error) return {};
  throw Error(ErrorKind::kFailed,
              file.string() + ": cannot be read; restore it from a backup");
} catch (const Error& error) {
  // kDamaged would be read as damage to the trial's checkpoint.
  throw Error(ErrorKind::kFailed, error.what());
}

std::optional<ContextLink> FindMissingLink(const fs::path& master) {
  ContextOrigin origin = ReadContextOrigin(master);
  for (ContextLink& link : origin.links) {
    std::error_code error;
    if (!fs::is_directory(link.target, error)) return std::move(link);
  }
  return std::nullopt;
}

fs::path FindProgramOfTrial(const std::string& program, const fs::path& context,
                            const std::string& path) {
  if (program.find('/') != std::string::npos) {
    const ContextOrigin origin = ReadContextOrigin(context);
    if (origin.Reaches(program)) {
      return FindProgram(program, origin.directory, path);
    }
  }
  return FindProgram(program, context, path);
}

nlohmann::json LinkedFiles::Json() const {
  return {{"files", files},
          {"bytes", bytes},
          {"links", links},
          {"modified", FormatTimestamp(modified)},
          {"complete", complete}};
}

std::optional<LinkedFiles> CountLinkedFiles(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) return std::nullopt;
  LinkedFiles found;
  fs::recursive_directory_iterator entry(
      directory, fs::directory_options::skip_permission_denied, error);
  for (std::int64_t seen = 0;
       !error && entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    if (++seen > kMaxCounted) {
      found.complete = false;
      break;
    }
    struct stat status {};
    if (::lstat(entry->path().c_str(), &status) != 0) continue;
    if (S_ISREG(status.st_mode)) {
      ++found.files;
      found.bytes += status.st_size;
    } else if (S_ISLNK(status.st_mode)) {
      ++found.links;
    } else {
      continue;
    }
    found.modified = std::max(found.modified, ModificationTime(status));
  }
  found.complete = found.complete && !error;
  return found;
}

std::string LinkedFilesText(const nlohmann::json& recorded) {
  const std::int64_t links = recorded.value("links", std::int64_t{0});
  return CountText(recorded.value("files", std::int64_t{0}), "file") +
         (links > 0 ? " and " + CountText(links, "link") : "") + ", " +
         FormatBytes(recorded.value("bytes", std::int64_t{0}));
}

std::string LinkChange(const nlohmann::json& recorded) {
  const auto now = CountLinkedFiles(recorded.value("target", ""));
  if (!now) return "is missing";
  if (!now->complete || !recorded.value("complete", true)) return "";
  const nlohmann::json json = now->Json();
  const std::string text = LinkedFilesText(json);
  const std::string then = LinkedFilesText(recorded);
  if (text != then ||
      json.at("bytes") != recorded.value("bytes", std::int64_t{-1})) {
    return "holds " + text + " (then " + then + ")";
  }
  const auto modified = recorded.value("modified", "");
  if (json.at("modified") == modified) return "";
  return "has files of " + json.at("modified").get<std::string>() +
         ", the newest was of " + modified;
}

}  // namespace dtrain

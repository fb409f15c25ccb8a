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

// Returns how many directories above its beginning a relative path reaches.
int Ascent(const fs::path& path) {
  int depth = 0;
  int most = 0;
  for (const fs::path& part : path) {
    if (part == "..") {
      most = std::max(most, --depth * -1);
    } else if (part != "." && !part.empty()) {
      ++depth;
    }
  }
  return most;
}

// Returns the last `count` names of an absolute path.
fs::path LastNames(const fs::path& path, int count) {
  fs::path names;
  for (auto part = std::prev(path.end(), count); part != path.end(); ++part) {
    names /= *part;
  }
  return names;
}

bool IsWithin(const std::string& path, const std::string& directory) {
  return path.starts_with(directory + "/");
}

}  // namespace

void ContextOrigin::Add(std::string_view path, bool declared) {
  const fs::path given(path);
  if (given.is_absolute()) {
    Refuse(path,
           "is an absolute path, which programs reach without a link; leave "
           "it out");
  }
  const int ascent = Ascent(given);
  if (ascent >= std::distance(directory.begin(), directory.end())) {
    Refuse(path, "leads above the root directory; correct it");
  }
  fs::path target = (directory / given).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();
  std::string name = target.lexically_relative(directory).string();
  if (name == "." || name == ".." || name.ends_with("/..")) {
    Refuse(path,
           "contains the experiment's own files; name a directory of data");
  }
  if (!IsValidUtf8(target.string())) {
    Refuse(path, "is in a directory whose name is not UTF-8; rename it");
  }
  std::error_code ignored;
  if (fs::exists(target, ignored) && !fs::is_directory(target, ignored)) {
    Refuse(path,
           "is not a directory; name the one that contains it, or its absolute "
           "path in the program");
  }
  for (const ContextLink& link : links) {
    if (link.path == name) return;
    const bool inside = IsWithin(name, link.path);
    if (inside || IsWithin(link.path, name)) {
      Refuse(path, std::string(inside ? "is in" : "contains") + " '" +
                       link.path + "', which is linked too; name one of them");
    }
  }
  if (ascent > std::distance(below.begin(), below.end())) {
    below = LastNames(directory, ascent);
  }
  links.push_back({std::move(name), std::move(target), declared});
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
    if (::lstat(entry->path().c_str(), &status) != 0 ||
        !S_ISREG(status.st_mode)) {
      continue;
    }
    ++found.files;
    found.bytes += status.st_size;
    found.modified = std::max(found.modified, ModificationTime(status));
  }
  found.complete = found.complete && !error;
  return found;
}

std::string LinkChange(const nlohmann::json& recorded) {
  const auto now = CountLinkedFiles(recorded.value("target", ""));
  if (!now) return "is missing";
  if (!now->complete || !recorded.value("complete", true)) return "";
  const nlohmann::json json = now->Json();
  const auto text = [](const nlohmann::json& one) {
    return CountText(one.value("files", std::int64_t{0}), "file") + " of " +
           FormatBytes(one.value("bytes", std::int64_t{0}));
  };
  if (text(json) != text(recorded) ||
      json.at("bytes") != recorded.value("bytes", std::int64_t{-1})) {
    return "holds " + text(json) + ", it had " + text(recorded);
  }
  const auto modified = recorded.value("modified", "");
  if (json.at("modified") == modified) return "";
  return "has files of " + json.at("modified").get<std::string>() +
         ", the newest was of " + modified;
}

}  // namespace dtrain

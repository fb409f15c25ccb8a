// Determined has had five names for the directory of checkpoints, two of which
// mean a directory below another. SettleStoragePath reduces them to one
// absolute path and removes the others from the effective configuration, so
// that a stored experiment means the same from every working directory.

#include "engine/config/storage_check.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {
namespace {

constexpr char kStorage[] = "checkpoint_storage";
// Name of storage_path in earlier versions of Determined. Given alone, it is
// the whole path.
constexpr char kOldPath[] = "checkpoint_path";

// True for a deprecated name that means nothing beside the others, as in
// Determined.
bool IsIgnored(const Node& root, std::string_view name) {
  const auto has = [&](const char* other) {
    return IsGiven(root, JoinPath(kStorage, other));
  };
  return has("host_path") && (name == "container_path" ||
                              (name == kOldPath && has("storage_path")));
}

void AddIgnoredNote(const Node& root, std::string_view name,
                    Findings& findings) {
  const std::string key = JoinPath(kStorage, name);
  findings.AddNote(FindMark(root, key), key,
                   "is ignored beside host_path, as by Determined");
}

// Returns which of Determined's names for the directory are given.
std::vector<std::string> ConfiguredPaths(const Node& root) {
  std::vector<std::string> names;
  for (const auto* name : {"path", "host_path", "container_path"}) {
    if (IsGiven(root, JoinPath(kStorage, name)) && !IsIgnored(root, name)) {
      names.emplace_back(name);
    }
  }
  if (names.empty() && IsGiven(root, JoinPath(kStorage, kOldPath))) {
    names.emplace_back(kOldPath);
  }
  return names;
}

// Returns which of the names for a directory below it are given.
std::vector<std::string> ConfiguredInnerPaths(
    const Node& root, const std::vector<std::string>& names) {
  std::vector<std::string> inner;
  for (const auto* name : {"storage_path", kOldPath}) {
    const bool is_inner =
        (names.empty() || names[0] != name) && !IsIgnored(root, name);
    if (is_inner && IsGiven(root, JoinPath(kStorage, name))) {
      inner.emplace_back(name);
    }
  }
  return inner;
}

void RequireOne(const Node& root, const std::vector<std::string>& names,
                Findings& findings) {
  if (names.size() < 2) return;
  const std::string key = JoinPath(kStorage, names[1]);
  findings.Error(FindMark(root, key), key,
                 "means the same as " + names[0] + "; remove one of them");
}

// Returns `path` relative to `directory`, normalised, without a slash at the
// end.
std::filesystem::path AbsoluteIn(const std::string& directory,
                                 const std::string& path) {
  const std::filesystem::path normal =
      (std::filesystem::path(directory) / path).lexically_normal();
  return normal.has_filename() || normal == normal.root_path()
             ? normal
             : normal.parent_path();
}

bool IsBelow(const std::filesystem::path& path,
             const std::filesystem::path& base) {
  const auto relative = path.lexically_relative(base);
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

void SettleStoragePath(const Node& root, const ReadOptions& options,
                       nlohmann::json& storage, Findings& findings) {
  const std::vector<std::string> names = ConfiguredPaths(root);
  const std::vector<std::string> inner = ConfiguredInnerPaths(root, names);
  RequireOne(root, names, findings);
  RequireOne(root, inner, findings);
  for (const auto* name : {"container_path", kOldPath}) {
    const std::string key = JoinPath(kStorage, name);
    if (IsGiven(root, key) && IsIgnored(root, name)) {
      AddIgnoredNote(root, name, findings);
    }
  }
  nlohmann::json path = names.empty() ? nlohmann::json() : storage[names[0]];
  if (path.is_string()) {
    path = AbsoluteIn(options.directory, path.get<std::string>()).string();
  }
  if (!inner.empty() && storage[inner[0]].is_string()) {
    const std::string key = JoinPath(kStorage, inner[0]);
    const auto text = storage[inner[0]].get<std::string>();
    if (names.empty()) {
      findings.Error(
          FindMark(root, key), key,
          "is relative to host_path, which is missing; use path instead");
    } else if (path.is_string()) {
      const auto base = path.get<std::string>();
      const std::filesystem::path whole = AbsoluteIn(base, text);
      const bool is_outside = !IsBelow(whole, base);
      if (is_outside && inner[0] == kOldPath && names[0] == "host_path") {
        AddIgnoredNote(root, kOldPath, findings);
        path = base;
      } else if (is_outside) {
        findings.Error(FindMark(root, key), key,
                       "is outside " + names[0] + ", " + base +
                           "; name a directory below it");
      } else {
        path = whole.string();
      }
    }
  }
  for (const auto* name :
       {"type", "host_path", "container_path", "storage_path", kOldPath}) {
    storage.erase(name);
  }
  storage["path"] = path;
}

void FindStorage(const Node& root, const ReadOptions& options,
                 CheckpointConfig& checkpoints) {
  const std::vector<std::string> names = ConfiguredPaths(root);
  if (names.empty()) return;
  const std::string key = JoinPath(kStorage, names[0]);
  const Node* section = root.Find(kStorage);
  checkpoints.base =
      AbsoluteIn(options.directory, section->Find(names[0])->text).string();
  Findings where(options.file_name, options.overrides, !options.is_generated);
  where.Error(FindMark(root, key), key, "");
  checkpoints.where = where.Release().front();
}

}  // namespace dtrain

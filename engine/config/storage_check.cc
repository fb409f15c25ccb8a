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

void NoteIgnored(const Node& root, std::string_view name, Findings& findings) {
  const std::string key = JoinPath(kStorage, name);
  findings.Note(MarkOf(root, key), key,
                "is ignored beside host_path, as by Determined");
}

// Returns which of Determined's names for the directory are given.
std::vector<std::string> PathsGiven(const Node& root) {
  std::vector<std::string> given;
  for (const auto* name : {"path", "host_path", "container_path"}) {
    if (IsGiven(root, JoinPath(kStorage, name)) && !IsIgnored(root, name)) {
      given.emplace_back(name);
    }
  }
  if (given.empty() && IsGiven(root, JoinPath(kStorage, kOldPath))) {
    given.emplace_back(kOldPath);
  }
  return given;
}

// Returns which of the names for a directory below it are given.
std::vector<std::string> InnerPathsGiven(
    const Node& root, const std::vector<std::string>& given) {
  std::vector<std::string> inner;
  for (const auto* name : {"storage_path", kOldPath}) {
    const bool is_inner =
        (given.empty() || given[0] != name) && !IsIgnored(root, name);
    if (is_inner && IsGiven(root, JoinPath(kStorage, name))) {
      inner.emplace_back(name);
    }
  }
  return inner;
}

void RequireOne(const Node& root, const std::vector<std::string>& given,
                Findings& findings) {
  if (given.size() < 2) return;
  const std::string key = JoinPath(kStorage, given[1]);
  findings.Error(MarkOf(root, key), key,
                 "means the same as " + given[0] + "; remove one of them");
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
  const std::vector<std::string> given = PathsGiven(root);
  const std::vector<std::string> inner = InnerPathsGiven(root, given);
  RequireOne(root, given, findings);
  RequireOne(root, inner, findings);
  for (const auto* name : {"container_path", kOldPath}) {
    const std::string key = JoinPath(kStorage, name);
    if (IsGiven(root, key) && IsIgnored(root, name)) {
      NoteIgnored(root, name, findings);
    }
  }
  nlohmann::json path = given.empty() ? nlohmann::json() : storage[given[0]];
  if (path.is_string()) {
    path = AbsoluteIn(options.directory, path.get<std::string>()).string();
  }
  if (!inner.empty() && storage[inner[0]].is_string()) {
    const std::string key = JoinPath(kStorage, inner[0]);
    const auto text = storage[inner[0]].get<std::string>();
    if (given.empty()) {
      findings.Error(
          MarkOf(root, key), key,
          "is relative to host_path, which is missing; use path instead");
    } else if (path.is_string()) {
      const auto base = path.get<std::string>();
      const std::filesystem::path whole = AbsoluteIn(base, text);
      const bool is_outside = !IsBelow(whole, base);
      if (is_outside && inner[0] == kOldPath && given[0] == "host_path") {
        NoteIgnored(root, kOldPath, findings);
        path = base;
      } else if (is_outside) {
        findings.Error(MarkOf(root, key), key,
                       "is outside " + given[0] + ", " + base +
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
  const std::vector<std::string> given = PathsGiven(root);
  if (given.empty()) return;
  const std::string key = JoinPath(kStorage, given[0]);
  const Node* section = root.Find(kStorage);
  checkpoints.base =
      AbsoluteIn(options.directory, section->Find(given[0])->text).string();
  Findings where(options.file_name, options.overrides, !options.is_generated);
  where.Error(MarkOf(root, key), key, "");
  checkpoints.where = where.Take().front();
}

}  // namespace dtrain

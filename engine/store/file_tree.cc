#include "engine/store/file_tree.h"

#include <algorithm>
#include <system_error>

#include "engine/base/error.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void Fail(const fs::path& path, const std::error_code& error) {
  throw Error(ErrorKind::kFailed,
              path.string() + ": cannot be removed: " + error.message() +
                  "; check its permissions, then run 'dtrain gc'");
}

// Programs make directories read-only, in which nothing can be removed.
void MakeWritable(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(directory, error))) return;
  fs::permissions(directory, fs::perms::owner_all, fs::perm_options::add,
                  error);
  for (const std::string& name : NamesIn(directory)) {
    MakeWritable(directory / name);
  }
}

void RemoveAll(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error == std::errc::permission_denied) {
    MakeWritable(path);
    fs::remove_all(path, error);
  }
  if (error) Fail(path, error);
}

}  // namespace

std::vector<std::string> NamesIn(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(directory, error))) return names;
  fs::directory_iterator entry(directory, error);
  for (const fs::directory_iterator end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<fs::path> TrashIn(const fs::path& directory) {
  std::vector<fs::path> trash;
  for (const std::string& name : NamesIn(directory)) {
    if (name.ends_with(kTrashSuffix)) trash.push_back(directory / name);
  }
  return trash;
}

std::int64_t TreeBytes(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (fs::is_regular_file(status)) {
    const auto size = fs::file_size(path, error);
    return error ? 0 : static_cast<std::int64_t>(size);
  }
  if (!fs::is_directory(status)) return 0;
  std::int64_t bytes = 0;
  fs::directory_iterator entry(path, error);
  for (const fs::directory_iterator end; !error && entry != end;
       entry.increment(error)) {
    bytes += TreeBytes(entry->path());
  }
  return bytes;
}

std::int64_t RemoveTree(const fs::path& path) {
  std::error_code error;
  fs::path trash = path;
  if (!path.filename().string().ends_with(kTrashSuffix)) {
    trash += kTrashSuffix;
    RemoveAll(trash);  // an earlier attempt
  }
  if (!fs::exists(fs::symlink_status(path, error))) return 0;
  const std::int64_t bytes = TreeBytes(path);
  if (trash != path) {
    fs::rename(path, trash, error);
    if (error) Fail(path, error);
  }
  RemoveAll(trash);
  return bytes;
}

}  // namespace dtrain

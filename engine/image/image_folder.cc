#include "engine/image/image_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

using FileId = std::pair<dev_t, ino_t>;

[[noreturn]] void FailDirectory(const fs::path& path, const std::string& why) {
  throw Error(ErrorKind::kFailed, EscapeForTerminal(path.string()) +
                                      ": cannot be read: " + why +
                                      "; check the path and its permissions");
}

struct Entries {
  std::vector<std::string> directories;
  std::vector<std::string> files;
};

// Returns the contents of a directory, each kind sorted by name. A link counts
// as its target.
Entries ReadEntries(const fs::path& path) {
  Entries entries;
  std::error_code error;
  fs::directory_iterator at(path, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    std::error_code dangling;
    auto& names =
        at->is_directory(dangling) ? entries.directories : entries.files;
    names.push_back(at->path().filename().string());
  }
  if (error) FailDirectory(path, error.message());
  std::sort(entries.directories.begin(), entries.directories.end());
  std::sort(entries.files.begin(), entries.files.end());
  return entries;
}

// The directories of one class, sorted by the bytes of their paths and not by
// depth, as torchvision's make_dataset sorts them.
class ClassWalk {
 public:
  explicit ClassWalk(const fs::path& path) { Visit(path); }

  void AddTo(ImageFolder& folder, std::int64_t label) const {
    for (const auto& [directory, names] : images_) {
      for (const std::string& name : names) {
        folder.samples.push_back({fs::path(directory) / name, label});
      }
    }
    folder.ignored += ignored_;
  }

 private:
  void Visit(const fs::path& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
      FailDirectory(path, std::generic_category().message(errno));
    }
    const FileId id(status.st_dev, status.st_ino);
    if (std::find(above_.begin(), above_.end(), id) != above_.end()) return;
    above_.push_back(id);
    const Entries entries = ReadEntries(path);
    auto& images = images_[path.string()];
    for (const std::string& name : entries.files) {
      if (IsImageName(name)) {
        images.push_back(name);
      } else {
        ++ignored_;
      }
    }
    for (const std::string& name : entries.directories) Visit(path / name);
    above_.pop_back();
  }

  std::map<std::string, std::vector<std::string>> images_;
  std::vector<FileId> above_;  // from the class to the current directory
  std::int64_t ignored_ = 0;
};

}  // namespace

ImageFolder ListImageFolder(const fs::path& root) {
  ImageFolder folder;
  folder.classes = ReadEntries(root).directories;
  if (folder.classes.empty()) {
    throw Error(ErrorKind::kFailed,
                "found no class directories in " +
                    EscapeForTerminal(root.string()) +
                    "; give each class a directory of its images");
  }
  for (std::size_t i = 0; i < folder.classes.size(); ++i) {
    const fs::path path = root / folder.classes[i];
    const std::size_t before = folder.samples.size();
    ClassWalk(path).AddTo(folder, static_cast<std::int64_t>(i));
    if (folder.samples.size() == before) {
      throw Error(ErrorKind::kFailed, "no image files in " +
                                          EscapeForTerminal(path.string()) +
                                          "; expected .jpg, .jpeg or .png");
    }
  }
  return folder;
}

}  // namespace dtrain

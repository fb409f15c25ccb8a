// Lists the images of a directory with a subdirectory for each class, in the
// order of torchvision's ImageFolder, so that labels and sample numbers are
// those of a PyTorch program on the same directory. Links are followed, as
// there. A link to a directory on the way down would be followed for ever; the
// device and inode of each directory on the way show it.

#include "engine/image/image_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/system_error.h"

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

// True for directories that notebooks, archives and file servers leave behind.
bool IsHidden(const std::string& directory) {
  return directory.starts_with('.') || directory.starts_with('@') ||
         directory == "__MACOSX";
}

// The directories of one class, sorted by the bytes of their paths and not by
// depth, as torchvision's make_dataset sorts them.
class ClassWalk {
 public:
  ClassWalk(const fs::path& root, const std::string& name) : root_(root) {
    Visit(root / name, IsHidden(name));
  }

  void AddTo(ImageFolder& folder, std::int64_t label) const {
    for (const auto& [directory, names] : images_) {
      for (const std::string& name : names) {
        folder.samples.push_back({fs::path(directory) / name, label});
      }
    }
    folder.ignored += ignored_;
    if (folder.first_ignored.empty()) folder.first_ignored = first_ignored_;
    folder.hidden.insert(folder.hidden.end(), hidden_.begin(), hidden_.end());
  }

 private:
  void Visit(const fs::path& path, bool is_hidden) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
      FailDirectory(path, ErrnoText());
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
        if (ignored_++ == 0) first_ignored_ = FindRelative(path / name);
      }
    }
    if (is_hidden && !images.empty()) hidden_.push_back(FindRelative(path));
    for (const std::string& name : entries.directories) {
      Visit(path / name, is_hidden || IsHidden(name));
    }
    above_.pop_back();
  }

  std::string FindRelative(const fs::path& path) const {
    return path.lexically_relative(root_).string();
  }

  fs::path root_;
  std::map<std::string, std::vector<std::string>> images_;
  std::vector<std::string> hidden_;
  std::string first_ignored_;
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
    ClassWalk(root, folder.classes[i])
        .AddTo(folder, static_cast<std::int64_t>(i));
    if (folder.samples.size() == before) {
      throw Error(ErrorKind::kFailed, "no image files in " +
                                          EscapeForTerminal(path.string()) +
                                          "; expected .jpg, .jpeg or .png");
    }
  }
  return folder;
}

namespace {

// Returns up to five of the names, quoted, and the number of the others.
std::string FormatNames(const std::vector<std::string>& names) {
  constexpr std::size_t kMaxShown = 5;
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxShown); ++i) {
    shown.push_back("'" + Truncate(EscapeForTerminal(names[i]), 100) + "'");
  }
  const std::string text = Join(shown, ", ");
  if (names.size() <= kMaxShown) return text;
  return text + " and " + std::to_string(names.size() - kMaxShown) + " more";
}

}  // namespace

std::vector<std::string> FindFolderFaults(const ImageFolder& folder,
                                          const std::string& name) {
  std::vector<std::string> faults;
  if (!folder.hidden.empty()) {
    faults.push_back(EscapeForTerminal(name) + ": images of " +
                     FormatNames(folder.hidden) +
                     " are trained on, though other programs leave such "
                     "directories behind; delete them if they are no data");
  }
  const auto images = static_cast<std::int64_t>(folder.samples.size());
  if (folder.ignored * 100 > folder.ignored + images) {
    faults.push_back(
        EscapeForTerminal(name) + ": " + std::to_string(folder.ignored) +
        " of " + std::to_string(folder.ignored + images) +
        " files are left out, such as " + FormatNames({folder.first_ignored}) +
        ": only .jpg, .jpeg and .png are read; convert them if they are "
        "images");
  }
  return faults;
}

std::string CompareClasses(const ImageFolder& training,
                           const ImageFolder& validation) {
  std::vector<std::string> parts;
  const auto add = [&](const ImageFolder& one, const ImageFolder& other,
                       const char* where) {
    std::vector<std::string> only;
    std::ranges::set_difference(one.classes, other.classes,
                                std::back_inserter(only));
    if (!only.empty()) parts.push_back(FormatNames(only) + " only in " + where);
  };
  add(training, validation, "train/");
  add(validation, training, "val/");
  return Join(parts, "; ");
}

}  // namespace dtrain

#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/base/api.h"

namespace dtrain {

struct ImageSample {
  std::filesystem::path path;
  std::int64_t label = 0;  // index into the classes
};

/// A directory of images in the layout of torchvision's ImageFolder: one
/// directory for each class.
struct ImageFolder {
  std::vector<std::string> classes;  // sorted by their bytes
  std::vector<ImageSample> samples;  // by class, directory, name
  std::int64_t ignored = 0;          // other files in the directories
  std::string first_ignored;         // relative to the root
  // Directories with samples that other programs leave behind, such as
  // .ipynb_checkpoints; relative to the root, sorted.
  std::vector<std::string> hidden;
};

/// Lists the .jpg, .jpeg and .png files of `root`, in either case and at any
/// depth below its classes. Follows links, but not in circles. Opens no file.
/// Throws Error(kFailed) that names the directory if one cannot be read, there
/// are no classes, or a class has no image.
[[nodiscard]] DTRAIN_API ImageFolder
ListImageFolder(const std::filesystem::path& root);

/// Returns warnings about the folder `name`, each naming a directory or a file:
/// hidden directories, which are classes or part of one as in torchvision, and
/// ignored files if they are more than 1 % of all.
[[nodiscard]] DTRAIN_API std::vector<std::string> FindFolderFaults(
    const ImageFolder& folder, const std::string& name);

/// Returns the classes that only one of the folders train/ and val/ has, such
/// as "'a' only in train/; 'b', 'c' only in val/"; empty if there are none.
[[nodiscard]] DTRAIN_API std::string CompareClasses(
    const ImageFolder& training, const ImageFolder& validation);

/// True for names that end with .jpg, .jpeg or .png, in either case.
inline bool IsImageName(const std::string& name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower.ends_with(".jpg") || lower.ends_with(".jpeg") ||
         lower.ends_with(".png");
}

}  // namespace dtrain

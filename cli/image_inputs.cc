#include "cli/image_inputs.h"

#include <algorithm>
#include <system_error>

#include "engine/base/error.h"
#include "engine/image/image_name.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> ImagesBelow(const fs::path& directory) try {
  std::vector<fs::path> images;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file() && IsImageName(entry.path().filename())) {
      images.push_back(entry.path());
    }
  }
  if (images.empty()) {
    throw Error(ErrorKind::kUsage,
                directory.string() +
                    ": has no .jpg, .jpeg or .png file; name images, or a "
                    "directory of them");
  }
  std::ranges::sort(images);
  return images;
} catch (const fs::filesystem_error& error) {
  throw Error(ErrorKind::kUsage, error.path1().string() + ": cannot read: " +
                                     error.code().message());
}

}  // namespace

std::vector<fs::path> FindImages(const std::vector<std::string>& inputs) {
  std::vector<fs::path> images;
  for (const std::string& input : inputs) {
    std::error_code ignored;
    if (fs::is_directory(input, ignored)) {
      const auto below = ImagesBelow(input);
      images.insert(images.end(), below.begin(), below.end());
    } else if (fs::exists(input, ignored)) {
      images.emplace_back(input);
    } else {
      throw Error(ErrorKind::kUsage,
                  input + ": there is no such image or directory");
    }
  }
  return images;
}

}  // namespace dtrain

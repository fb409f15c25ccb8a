#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dtrain {

/// The images that a user names: files as they are named, of directories all
/// .jpg, .jpeg and .png files in the tree below, by name. Throws Error(kUsage)
/// for what is not there and for a directory without images. Opens none.
std::vector<std::filesystem::path> FindImages(
    const std::vector<std::string>& inputs);

}  // namespace dtrain

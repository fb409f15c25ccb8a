#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

namespace dtrain {

/// What an image of the folder takes one thread from its file to the numbers
/// that a network trains on: JPEG or PNG, a random crop resized to 224x224,
/// half of them mirrored, normalised. The median of several passes over all.
/// Throws Error if the folder has no classes or an image cannot be read.
nlohmann::json ImageTimes(const std::filesystem::path& folder);

/// The same of images that a cache keeps with a shorter side of 256. Throws
/// Error if it cannot be made, too.
nlohmann::json CachedImageTimes(const std::filesystem::path& folder);

}  // namespace dtrain

#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/image/image.h"
#include "tests/support/golden.h"

namespace dtrain {

/// Results of PIL and torchvision for small images, recorded by make_images.py.
inline const nlohmann::json& GoldenImages() {
  static const nlohmann::json images = ReadGolden("images.json");
  return images;
}

inline std::filesystem::path GoldenImagePath(const std::string& name) {
  return std::filesystem::path(DTRAIN_GOLDEN_DIR) / "images" / name;
}

/// Reads a file of tests/golden/images.
inline std::vector<std::uint8_t> GoldenImageBytes(const std::string& name) {
  std::ifstream file(GoldenImagePath(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Converts a recorded image, whose pixels are in hex.
inline Image RecordedImage(const nlohmann::json& record) {
  const std::string hex = record.at("pixels");
  Image image{record.at("height"), record.at("width"), {}};
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    image.pixels.push_back(
        static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return image;
}

/// Returns the source image of a record with the size [height, width].
inline Image RecordedScene(const nlohmann::json& size) {
  for (const nlohmann::json& scene : GoldenImages().at("scenes")) {
    if (scene.at("height") == size.at(0) && scene.at("width") == size.at(1)) {
      return RecordedImage(scene);
    }
  }
  return {};
}

inline bool SameImage(const Image& a, const Image& b) {
  return a.height == b.height && a.width == b.width && a.pixels == b.pixels;
}

/// Returns the part `box` of an image.
inline Image CropImage(const Image& image, const Box& box) {
  Image part{box.height, box.width, {}};
  for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
    const std::uint8_t* from = image.row(y) + 3 * box.left;
    part.pixels.insert(part.pixels.end(), from, from + 3 * box.width);
  }
  return part;
}

}  // namespace dtrain

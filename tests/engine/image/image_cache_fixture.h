#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/image/cached_images.h"
#include "engine/image/image_cache.h"
#include "engine/image/image_file.h"
#include "engine/image/image_folder.h"
#include "engine/image/transforms.h"
#include "tests/support/golden_images.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {

inline std::string BytesOfFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void WriteBytes(const std::filesystem::path& path,
                       const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A folder of small images of several sizes, and the file of its cache.
class ImageCacheFixture {
 public:
  ImageCacheFixture() {
    for (const char* name : {"420.jpg", "gray.jpg", "odd.jpg", "rgb.png"}) {
      Put(name, name);
    }
    folder_ = List();
  }

  void Put(const std::string& to, const std::string& image) const {
    std::filesystem::create_directories(root_ / "a");
    std::filesystem::copy_file(GoldenImagePath(image), root_ / "a" / to);
  }
  std::shared_ptr<const ImageFolder> List() const {
    return std::make_shared<const ImageFolder>(ListImageFolder(root_));
  }
  Image Expected(std::size_t i) const {
    return ShrunkTo(ReadImage(folder_->samples[i].path), kSide);
  }
  ImageCacheId Id() const {
    return {.key = 7, .count = folder_->samples.size(), .side = kSide};
  }
  /// Puts the first `count` images.
  void PutImages(ImageCacheBuilder& builder, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) builder.Put(i, Expected(i));
  }
  std::unique_ptr<ImageCacheBuilder> Begin() const {
    return ImageCacheBuilder::Begin(file_, Id());
  }
  /// A complete cache of them.
  void Make() const {
    const auto builder = Begin();
    PutImages(*builder, folder_->samples.size());
    builder->Finish();
  }
  std::filesystem::path Part() const { return file_.string() + ".part"; }

  static constexpr std::int64_t kSide = 12;
  const TemporaryDirectory directory_;
  const std::filesystem::path root_ = directory_.path() / "train";
  const std::filesystem::path file_ = directory_.path() / "cache/images/one";
  std::shared_ptr<const ImageFolder> folder_;
};

/// True if the pixels are those of `image`.
inline bool Shows(const ImageView& view, const Image& image) {
  const auto shown = PixelBytes(view);
  return view.height == image.height && view.width == image.width &&
         std::equal(shown.begin(), shown.end(), image.pixels.begin(),
                    image.pixels.end());
}

}  // namespace dtrain

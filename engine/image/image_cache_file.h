#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "engine/image/image.h"
#include "engine/image/image_cache_format.h"
#include "engine/os/files.h"

namespace dtrain {

/// A cache of shrunk images that is whole, mapped to be read. Any thread.
class ImageCacheFile {
 public:
  /// Null if there is no file, or it is not a whole cache of those images.
  static std::unique_ptr<const ImageCacheFile> Open(
      const std::filesystem::path& file, const ImageCacheId& id);

  enum class State { kPixels, kUnreadable, kDamaged };
  struct Found {
    State state = State::kDamaged;
    ImageView image;  // as long as the file is open
  };
  /// Image `i`. Its entry and pixels are compared with their checksums the
  /// first time. REQUIRES: i is less than their number.
  Found Find(std::size_t i) const;

  std::size_t size() const { return bytes_.bytes.size(); }

 private:
  ImageCacheFile(SharedBytes bytes, const ImageCacheId& id);
  bool IsIntact(std::size_t i, const ImageCacheEntry& entry) const;
  ImageView ViewOf(const ImageCacheEntry& entry) const;

  const SharedBytes bytes_;
  const ImageCacheId id_;
  mutable std::vector<std::atomic<std::uint8_t>> verdicts_;  // of each image
};

}  // namespace dtrain

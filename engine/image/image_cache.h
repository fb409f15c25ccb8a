#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/image/image.h"
#include "engine/os/files.h"
#include "engine/os/unique_fd.h"

namespace dtrain {

// A file of images that were decoded and shrunk once. See image_cache.cc.

/// Identifies the images of a cache and the side that they were shrunk to.
struct ImageCacheId {
  std::uint64_t key = 0;  // of the images' files: see FileSetKey
  std::uint64_t count = 0;
  std::uint32_t side = 0;

  bool operator==(const ImageCacheId&) const = default;
};

struct ImageCacheHeader {
  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t side = 0;
  std::uint64_t count = 0;
  std::uint64_t key = 0;
  std::uint64_t size = 0;  // of the whole file
  std::uint32_t unused = 0;
  std::uint32_t checksum = 0;  // CRC-32 of the fields above and all entries
};

struct ImageCacheEntry {
  std::uint64_t offset = 0;  // of the pixels, from the start of the file
  std::uint32_t height = 0;  // 0: the image's file could not be decoded
  std::uint32_t width = 0;
  std::uint32_t pixels_checksum = 0;  // CRC-32
  std::uint32_t unused = 0;
};

static_assert(sizeof(ImageCacheHeader) == 48);
static_assert(sizeof(ImageCacheEntry) == 24);

/// Offsets of the entry of image `i`, and of the first pixels of `count`.
constexpr std::uint64_t EntryOffset(std::uint64_t i) {
  return sizeof(ImageCacheHeader) + i * sizeof(ImageCacheEntry);
}
constexpr std::uint64_t PixelsOffset(std::uint64_t count) {
  return EntryOffset(count);
}

/// Returns the checksum for `header` and the bytes of all entries.
std::uint32_t ImageCacheChecksum(const ImageCacheHeader& header,
                                 std::span<const std::uint8_t> entries);

/// A complete cache, mapped for reading. Any thread.
class ImageCacheFile {
 public:
  struct Opened {
    std::unique_ptr<const ImageCacheFile> file;  // null: missing or not usable
    bool damaged = false;  // neither missing nor of other images or versions
  };
  /// Opens the cache of the images `id`. Compares the checksum of the index.
  static Opened Open(const std::filesystem::path& file, const ImageCacheId& id);

  enum class State { kPixels, kUnreadable, kDamaged };
  struct Found {
    State state = State::kDamaged;
    ImageView image;  // valid as long as the file is open
  };
  /// Returns image `i`. The first call for an image compares the checksum of
  /// its pixels. REQUIRES: i is less than their number.
  Found Find(std::size_t i) const;

  std::size_t size() const { return bytes_.bytes.size(); }

 private:
  ImageCacheFile(SharedBytes bytes, const ImageCacheId& id);
  bool IsIntact(const ImageCacheEntry& entry) const;
  ImageView GetView(const ImageCacheEntry& entry) const;

  const SharedBytes bytes_;
  const ImageCacheId id_;
  mutable std::vector<std::atomic<std::uint8_t>> verdicts_;  // of each image
};

/// Writes a cache: into the temporary file FILE.part, which is renamed when it
/// is complete. One process at a time holds the lock on that file; a crash
/// leaves it, and the next builder overwrites it. Put and PutUnreadable may be
/// called by any thread.
class ImageCacheBuilder {
 public:
  /// Returns null if another process is building it. Throws Error(kFailed) if
  /// it cannot be written.
  static std::unique_ptr<ImageCacheBuilder> Begin(
      const std::filesystem::path& file, const ImageCacheId& id);
  /// Removes the temporary file unless it was finished.
  ~ImageCacheBuilder();
  ImageCacheBuilder(const ImageCacheBuilder&) = delete;
  ImageCacheBuilder& operator=(const ImageCacheBuilder&) = delete;

  /// Writes image `i`, or that its file cannot be decoded. REQUIRES: once for
  /// each image. Finish reports failures.
  void Put(std::size_t i, const ImageView& image);
  void PutUnreadable(std::size_t i);
  /// True once anything could not be written: the cache will not be
  /// kept.
  bool failed() const;

  /// Writes the index and renames the file. Throws Error(kFailed) if anything
  /// could not be written. REQUIRES: every image was put.
  void Finish();

 private:
  ImageCacheBuilder(std::filesystem::path file, const ImageCacheId& id);
  bool Lock();
  void CountImage(const std::string& fault);
  std::string LackOfSpace() const;
  [[noreturn]] void Fail(int error) const;

  const std::filesystem::path file_;
  const std::filesystem::path part_;
  const ImageCacheId id_;
  UniqueFd fd_;
  bool owned_ = false;  // the temporary file is ours to remove
  std::vector<ImageCacheEntry> entries_;

  mutable std::mutex mutex_;  // guards the fields below
  std::uint64_t end_ = 0;     // offset of the next pixels
  std::uint64_t images_ = 0;  // that were put
  std::string fault_;         // the first one
};

/// Returns the bytes of an image's pixels.
inline std::span<const std::uint8_t> PixelBytes(const ImageView& image) {
  return {image.pixels,
          static_cast<std::size_t>(image.height) * image.stride()};
}

}  // namespace dtrain

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/image/image.h"

namespace dtrain {

// A file of images that were decoded and shrunk once: a header, an entry for
// each image of a folder in the folder's order, and behind them the pixels in
// any order. Numbers lie as they do in memory; to a machine of the other byte
// order it is of an unknown version.

/// Which images a cache is of, and to which shorter side they were shrunk.
struct ImageCacheId {
  std::uint64_t key = 0;  // of their files: see FileSetKey
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
  std::uint64_t size = 0;  // of the whole file; 0 as long as it is made
  std::uint32_t unused = 0;
  std::uint32_t checksum = 0;  // of all before it
};

enum class ImageCacheState : std::uint32_t {
  kMissing = 0,     // only while it is made
  kPixels = 1,      // they stand in the file
  kUnreadable = 2,  // the image's file could not be decoded
};

/// Each has a checksum of its own, so that damage to one costs no other, and
/// nobody has to read all of them first.
struct ImageCacheEntry {
  std::uint64_t offset = 0;  // of the pixels, from the file's beginning
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  ImageCacheState state = ImageCacheState::kMissing;
  std::uint32_t pixels_checksum = 0;
  std::uint32_t unused = 0;
  std::uint32_t checksum = 0;  // of all before it and the image's number
};

static_assert(sizeof(ImageCacheHeader) == 48);
static_assert(sizeof(ImageCacheEntry) == 32);

/// zlib's crc32, going on from `start`.
std::uint32_t ImageCacheChecksum(std::span<const std::uint8_t> bytes,
                                 std::uint32_t start = 0);

/// The header of a cache of those images; `size` 0 while it is made.
ImageCacheHeader MakeImageCacheHeader(const ImageCacheId& id,
                                      std::uint64_t size);
/// Whether it is intact, of this version, and of those images.
bool IsHeaderOf(const ImageCacheHeader& header, const ImageCacheId& id);

/// Where the entry of image `i` stands, and where the pixels of `count` begin.
constexpr std::uint64_t EntryOffset(std::uint64_t i) {
  return sizeof(ImageCacheHeader) + i * sizeof(ImageCacheEntry);
}
constexpr std::uint64_t PixelsOffset(std::uint64_t count) {
  return EntryOffset(count);
}

/// The entry of image `i` with its checksum.
ImageCacheEntry Sealed(ImageCacheEntry entry, std::uint64_t i);
/// Whether the entry of image `i` is what was written there, and its pixels, if
/// it has any, lie in a file of `size` bytes.
bool IsEntryOf(const ImageCacheEntry& entry, std::uint64_t i,
               const ImageCacheId& id, std::uint64_t size);

/// The bytes of an image's pixels.
inline std::span<const std::uint8_t> PixelBytes(const ImageView& image) {
  return {image.pixels,
          static_cast<std::size_t>(image.height) * image.stride()};
}

}  // namespace dtrain

#include "engine/image/image_cache_format.h"

#include <zlib.h>

#include "engine/image/image_fault.h"

namespace dtrain {
namespace {

constexpr std::array<char, 8> kMagic = {'d', 't', 'i', 'm', 'a', 'g', 'e', 's'};
// Another one wherever the same files would give other bytes.
constexpr std::uint32_t kVersion = 1;

// Of all but the checksum itself, which stands last.
template <typename Record>
std::uint32_t ChecksumOf(const Record& record, std::uint32_t start) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&record);
  return ImageCacheChecksum({bytes, sizeof(Record) - sizeof(record.checksum)},
                            start);
}

// An entry that was written to another's place is none.
std::uint32_t EntryChecksum(const ImageCacheEntry& entry, std::uint64_t i) {
  const auto* number = reinterpret_cast<const std::uint8_t*>(&i);
  return ChecksumOf(entry, ImageCacheChecksum({number, sizeof(i)}));
}

bool HasPixels(const ImageCacheEntry& entry, const ImageCacheId& id,
               std::uint64_t size) {
  if (entry.height == 0 || entry.width > kMostPixels / entry.height) {
    return false;
  }
  const std::uint64_t bytes = std::uint64_t{entry.height} * entry.width * 3;
  return bytes != 0 && entry.offset >= PixelsOffset(id.count) &&
         entry.offset <= size && bytes <= size - entry.offset;
}

}  // namespace

std::uint32_t ImageCacheChecksum(std::span<const std::uint8_t> bytes,
                                 std::uint32_t start) {
  return static_cast<std::uint32_t>(
      ::crc32_z(start, bytes.data(), bytes.size()));
}

ImageCacheHeader MakeImageCacheHeader(const ImageCacheId& id,
                                      std::uint64_t size) {
  ImageCacheHeader header = {.magic = kMagic,
                             .version = kVersion,
                             .side = id.side,
                             .count = id.count,
                             .key = id.key,
                             .size = size};
  header.checksum = ChecksumOf(header, 0);
  return header;
}

bool IsHeaderOf(const ImageCacheHeader& header, const ImageCacheId& id) {
  return header.magic == kMagic && header.version == kVersion &&
         header.checksum == ChecksumOf(header, 0) &&
         id == ImageCacheId{header.key, header.count, header.side};
}

ImageCacheEntry Sealed(ImageCacheEntry entry, std::uint64_t i) {
  entry.checksum = EntryChecksum(entry, i);
  return entry;
}

bool IsEntryOf(const ImageCacheEntry& entry, std::uint64_t i,
               const ImageCacheId& id, std::uint64_t size) {
  if (entry.checksum != EntryChecksum(entry, i)) return false;
  return entry.state == ImageCacheState::kUnreadable ||
         (entry.state == ImageCacheState::kPixels &&
          HasPixels(entry, id, size));
}

}  // namespace dtrain

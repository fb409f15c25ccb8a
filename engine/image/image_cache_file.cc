#include "engine/image/image_cache_file.h"

#include <cstring>
#include <optional>
#include <utility>

namespace dtrain {
namespace {

constexpr std::uint8_t kUnknown = 0;
constexpr std::uint8_t kIntact = 1;
constexpr std::uint8_t kBroken = 2;

template <typename Record>
Record RecordAt(const SharedBytes& from, std::uint64_t offset) {
  Record record;
  std::memcpy(&record, from.bytes.data() + offset, sizeof(record));
  return record;
}

}  // namespace

std::unique_ptr<const ImageCacheFile> ImageCacheFile::Open(
    const std::filesystem::path& file, const ImageCacheId& id) {
  std::optional<SharedBytes> mapped = MapFile(file);
  if (!mapped || mapped->bytes.size() < PixelsOffset(id.count)) return nullptr;
  const auto header = RecordAt<ImageCacheHeader>(*mapped, 0);
  const bool whole =
      IsHeaderOf(header, id) && header.size == mapped->bytes.size();
  if (!whole) return nullptr;
  return std::unique_ptr<const ImageCacheFile>(
      new ImageCacheFile(*std::move(mapped), id));
}

ImageCacheFile::ImageCacheFile(SharedBytes bytes, const ImageCacheId& id)
    : bytes_(std::move(bytes)), id_(id), verdicts_(id.count) {}

ImageCacheFile::Found ImageCacheFile::Find(std::size_t i) const {
  const auto entry = RecordAt<ImageCacheEntry>(bytes_, EntryOffset(i));
  // Two threads may both look first; they come to the same end.
  std::uint8_t verdict = verdicts_[i].load(std::memory_order_relaxed);
  if (verdict == kUnknown) {
    verdict = IsIntact(i, entry) ? kIntact : kBroken;
    verdicts_[i].store(verdict, std::memory_order_relaxed);
  }
  if (verdict == kBroken) return {};
  if (entry.state == ImageCacheState::kUnreadable) {
    return {.state = State::kUnreadable};
  }
  return {.state = State::kPixels, .image = ViewOf(entry)};
}

bool ImageCacheFile::IsIntact(std::size_t i,
                              const ImageCacheEntry& entry) const {
  if (!IsEntryOf(entry, i, id_, bytes_.bytes.size())) return false;
  return entry.state != ImageCacheState::kPixels ||
         entry.pixels_checksum == ImageCacheChecksum(PixelBytes(ViewOf(entry)));
}

ImageView ImageCacheFile::ViewOf(const ImageCacheEntry& entry) const {
  return {entry.height, entry.width, bytes_.bytes.data() + entry.offset};
}

}  // namespace dtrain

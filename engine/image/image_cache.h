#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/image/image.h"
#include "engine/os/files.h"
#include "engine/os/unique_fd.h"

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

/// A cache of shrunk images while it is made: FILE.part, which one process at a
/// time has a lock on, and which gets its name when it is whole. What is in it
/// when its maker dies, the next one goes on with. Each image is first claimed,
/// then put. Any thread, but for Begin, Finish and Discard.
class ImageCacheBuild {
 public:
  /// Null if another process makes it, or `stopped` says so while what is there
  /// already is looked through. Throws Error(kFailed) if it cannot be written.
  static std::unique_ptr<ImageCacheBuild> Begin(
      const std::filesystem::path& file, const ImageCacheId& id,
      const std::function<bool()>& stopped);

  /// Whether the caller is to put image `i`: it is nobody else's, and nothing
  /// has failed.
  bool Claim(std::size_t i);
  /// The next one that nobody has claimed, claimed; nothing at the end.
  std::optional<std::size_t> ClaimNext();
  /// Writes a claimed image, or that its file cannot be decoded. A failure
  /// comes out of Finish.
  void Put(std::size_t i, const ImageView& image);
  void PutUnreadable(std::size_t i);
  /// Whether anything could not be written.
  bool failed() const;

  /// Waits for what is claimed, and gives the file its name. Throws
  /// Error(kFailed) if anything could not be written. REQUIRES: ClaimNext has
  /// come to the end.
  void Finish();
  /// Removes what there is of the file.
  void Discard();

 private:
  ImageCacheBuild(std::filesystem::path file, const ImageCacheId& id);
  bool Lock();
  void Resume(const std::function<bool()>& stopped);
  void TakeOver(const std::function<bool()>& stopped);
  bool Stands(std::uint64_t i, const ImageCacheEntry& entry,
              std::uint64_t size) const;
  void Write(std::size_t i, ImageCacheEntry entry, const ImageView& image);
  void Done(const std::string& fault);
  std::string LackOfRoom() const;
  [[noreturn]] void Fail(int error) const;

  const std::filesystem::path file_;
  const std::filesystem::path part_;
  const ImageCacheId id_;
  UniqueFd fd_;

  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable done_changed_;
  std::vector<bool> claimed_;
  std::size_t next_ = 0;   // none before it is unclaimed
  std::uint64_t end_ = 0;  // where the next pixels go
  std::uint64_t done_ = 0;
  std::string fault_;  // the first one
};

}  // namespace dtrain

// The file is a header, one entry for each image in the folder's order, and the
// pixels in any order. Numbers are in the machine's byte order; on a machine of
// the other order the version does not match.
//
// One checksum in the header covers the header and all entries (the index). It
// is compared when the file is opened, which for a million images reads 24 MB.
// The pixels of a million images are hundreds of gigabytes, so they cannot be
// read first; each entry holds the checksum of its own pixels instead, which is
// compared when an image is used for the first time.
//
// The file is written under another name and renamed, so under its own name it
// is always complete. It is never changed afterwards.

#include "engine/image/image_cache.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <zlib.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/image/image.h"
#include "engine/image/image_file.h"
#include "engine/os/file_lock.h"
#include "engine/os/system_error.h"

namespace dtrain {
namespace {

constexpr std::array<char, 8> kMagic = {'d', 't', 'i', 'm', 'a', 'g', 'e', 's'};
// To be raised wherever the same images would give other bytes.
constexpr std::uint32_t kVersion = 2;

constexpr std::uint8_t kUnknown = 0;
constexpr std::uint8_t kIntact = 1;
constexpr std::uint8_t kBroken = 2;

using Bytes = std::span<const std::uint8_t>;

std::uint32_t Crc32(Bytes bytes, std::uint32_t start = 0) {
  return static_cast<std::uint32_t>(
      ::crc32_z(start, bytes.data(), bytes.size()));
}

template <typename Record>
Record RecordAt(Bytes from, std::uint64_t offset) {
  Record record;
  std::memcpy(&record, from.data() + offset, sizeof(record));
  return record;
}

bool IsValid(const ImageCacheHeader& header, const ImageCacheId& id,
             Bytes file) {
  const std::uint64_t index = PixelsOffset(id.count);
  return header.magic == kMagic && header.size == file.size() &&
         index <= file.size() &&
         header.checksum ==
             ImageCacheChecksum(
                 header, file.subspan(EntryOffset(0), index - EntryOffset(0)));
}

}  // namespace

std::uint32_t ImageCacheChecksum(const ImageCacheHeader& header,
                                 Bytes entries) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&header);
  return Crc32(entries, Crc32({bytes, offsetof(ImageCacheHeader, checksum)}));
}

ImageCacheFile::Opened ImageCacheFile::Open(const std::filesystem::path& file,
                                            const ImageCacheId& id) {
  std::optional<SharedBytes> mapped = MapFile(file);
  if (!mapped) return {};
  const Bytes bytes = mapped->bytes;
  if (bytes.size() < sizeof(ImageCacheHeader)) return {.damaged = true};
  const auto header = RecordAt<ImageCacheHeader>(bytes, 0);
  // A valid cache of other images or of another version, as far as can be told.
  if (header.magic == kMagic &&
      (header.version != kVersion ||
       id != ImageCacheId{header.key, header.count, header.side})) {
    return {};
  }
  if (!IsValid(header, id, bytes)) return {.damaged = true};
  return {.file = std::unique_ptr<const ImageCacheFile>(
              new ImageCacheFile(*std::move(mapped), id))};
}

ImageCacheFile::ImageCacheFile(SharedBytes bytes, const ImageCacheId& id)
    : bytes_(std::move(bytes)), id_(id), verdicts_(id.count) {}

ImageCacheFile::Found ImageCacheFile::Find(std::size_t i) const {
  const auto entry = RecordAt<ImageCacheEntry>(bytes_.bytes, EntryOffset(i));
  if (entry.height == 0) return {.state = State::kUnreadable};
  // Two threads may compare the same image; they come to the same verdict.
  std::uint8_t verdict = verdicts_[i].load(std::memory_order_relaxed);
  if (verdict == kUnknown) {
    verdict = IsIntact(entry) ? kIntact : kBroken;
    verdicts_[i].store(verdict, std::memory_order_relaxed);
  }
  if (verdict == kBroken) return {};
  return {.state = State::kPixels, .image = GetView(entry)};
}

bool ImageCacheFile::IsIntact(const ImageCacheEntry& entry) const {
  const std::uint64_t size = bytes_.bytes.size();
  if (entry.width == 0 || entry.width > kMaxPixels / entry.height) return false;
  return entry.offset >= PixelsOffset(id_.count) && entry.offset <= size &&
         std::uint64_t{entry.height} * entry.width * 3 <= size - entry.offset &&
         entry.pixels_checksum == Crc32(PixelBytes(GetView(entry)));
}

ImageView ImageCacheFile::GetView(const ImageCacheEntry& entry) const {
  return {entry.height, entry.width, bytes_.bytes.data() + entry.offset};
}

namespace {

namespace fs = std::filesystem;

// From this many images on, their mean size predicts the size of the file.
constexpr std::uint64_t kMinImagesForMean = 16;

std::string SystemText(int error) {
  return "cannot be written: " + ErrnoText(error);
}

// Returns 0 or an errno value.
int WriteAt(int fd, Bytes bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t wrote =
        ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return wrote < 0 ? errno : ENOSPC;
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
    offset += static_cast<std::uint64_t>(wrote);
  }
  return 0;
}

}  // namespace

std::unique_ptr<ImageCacheBuilder> ImageCacheBuilder::Begin(
    const fs::path& file, const ImageCacheId& id) {
  std::unique_ptr<ImageCacheBuilder> builder(new ImageCacheBuilder(file, id));
  if (!builder->Lock()) return nullptr;
  return builder;
}

ImageCacheBuilder::ImageCacheBuilder(fs::path file, const ImageCacheId& id)
    : file_(std::move(file)),
      part_(file_.string() + ".part"),
      id_(id),
      entries_(id.count),
      end_(PixelsOffset(id.count)) {}

ImageCacheBuilder::~ImageCacheBuilder() {
  if (owned_) ::unlink(part_.c_str());
}

// The file is emptied only once the lock is held and it still has its name: it
// could be the finished cache of another process by then.
bool ImageCacheBuilder::Lock() {
  std::error_code ignored;
  fs::create_directories(file_.parent_path(), ignored);
  // Reported before the work, not after it.
  if (fs::is_directory(file_, ignored)) Fail(EISDIR);
  FileLock lock(UniqueFd(
      ::open(part_.c_str(),
             O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)));
  if (!lock) Fail(errno);
  const bool locked = lock.TryLock();
  fd_ = lock.Release();
  if (!locked && errno == EWOULDBLOCK) return false;
  if (!locked) Fail(errno);
  // Another builder may have renamed or removed the file.
  struct stat open {};
  struct stat there {};
  if (::fstat(fd_.get(), &open) != 0 || ::lstat(part_.c_str(), &there) != 0 ||
      open.st_dev != there.st_dev || open.st_ino != there.st_ino) {
    return false;
  }
  owned_ = true;
  if (::ftruncate(fd_.get(), 0) != 0) Fail(errno);
  return true;
}

void ImageCacheBuilder::Put(std::size_t i, const ImageView& image) {
  const Bytes pixels = PixelBytes(image);
  ImageCacheEntry& entry = entries_[i];
  {
    const std::lock_guard lock(mutex_);
    // Only the place is assigned under the lock; the pixels of several threads
    // are written at the same time.
    entry.offset = end_;
    end_ += pixels.size();
  }
  entry.height = static_cast<std::uint32_t>(image.height);
  entry.width = static_cast<std::uint32_t>(image.width);
  entry.pixels_checksum = Crc32(pixels);
  const int error = WriteAt(fd_.get(), pixels, entry.offset);
  CountImage(error == 0 ? "" : SystemText(error));
}

void ImageCacheBuilder::PutUnreadable(std::size_t) { CountImage(""); }

bool ImageCacheBuilder::failed() const {
  const std::lock_guard lock(mutex_);
  return !fault_.empty();
}

void ImageCacheBuilder::CountImage(const std::string& fault) {
  const std::lock_guard lock(mutex_);
  ++images_;
  if (fault_.empty()) fault_ = fault;
  // After 16, 32, 64, ... images: the estimate becomes better, and a check for
  // each would be slow.
  if (fault_.empty() && std::has_single_bit(images_)) fault_ = LackOfSpace();
}

// Predicts the size of the rest from the mean size so far: filling the disk to
// find out would cost other processes their checkpoints.
std::string ImageCacheBuilder::LackOfSpace() const {
  struct statvfs system {};
  if (images_ < kMinImagesForMean || ::fstatvfs(fd_.get(), &system) != 0 ||
      system.f_blocks == 0) {
    return "";
  }
  const double mean = static_cast<double>(end_ - PixelsOffset(id_.count)) /
                      static_cast<double>(images_);
  const double more = mean * static_cast<double>(id_.count - images_);
  const double free = static_cast<double>(system.f_bavail) *
                      static_cast<double>(system.f_frsize);
  if (more <= free) return "";
  return "needs about " + FormatBytes(static_cast<std::int64_t>(more)) +
         " more, and only " + FormatBytes(static_cast<std::int64_t>(free)) +
         " are free there";
}

void ImageCacheBuilder::Finish() {
  if (!fault_.empty()) {
    throw Error(ErrorKind::kFailed,
                EscapeForTerminal(part_.string()) + ": " + fault_);
  }
  const Bytes entries(reinterpret_cast<const std::uint8_t*>(entries_.data()),
                      entries_.size() * sizeof(ImageCacheEntry));
  // The header last: without it the file is no cache.
  ImageCacheHeader header = {.magic = kMagic,
                             .version = kVersion,
                             .side = id_.side,
                             .count = id_.count,
                             .key = id_.key,
                             .size = end_};
  header.checksum = ImageCacheChecksum(header, entries);
  int error = WriteAt(fd_.get(), entries, EntryOffset(0));
  if (error == 0) {
    error = WriteAt(
        fd_.get(),
        {reinterpret_cast<const std::uint8_t*>(&header), sizeof(header)}, 0);
  }
  if (error != 0) Fail(error);
  if (::fsync(fd_.get()) != 0 || ::rename(part_.c_str(), file_.c_str()) != 0) {
    Fail(errno);
  }
  owned_ = false;
}

void ImageCacheBuilder::Fail(int error) const {
  throw Error(ErrorKind::kFailed,
              EscapeForTerminal(part_.string()) + ": " + SystemText(error));
}

}  // namespace dtrain

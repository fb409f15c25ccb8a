#include "engine/image/image_cache.h"

#include <algorithm>
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
#include "engine/os/file_lock.h"

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
  if (entry.height == 0 || entry.width > kMaxPixels / entry.height) {
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

namespace {

namespace fs = std::filesystem;

// From so many images on, their mean size tells how large the file will be.
constexpr std::uint64_t kFewestForMean = 16;

std::string SystemText(int error) {
  return "cannot be written: " + std::generic_category().message(error);
}

// Bytes of something that stands in memory as it does in the file.
template <typename Record>
std::span<const std::uint8_t> BytesOf(const Record& record) {
  return {reinterpret_cast<const std::uint8_t*>(&record), sizeof(record)};
}

// 0, or what went wrong.
int WriteAt(int fd, std::span<const std::uint8_t> bytes, std::uint64_t offset) {
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

bool ReadAt(int fd, void* to, std::size_t size, std::uint64_t offset) {
  auto* bytes = static_cast<std::uint8_t*>(to);
  while (size > 0) {
    const ssize_t got = ::pread(fd, bytes, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<std::size_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
  return true;
}

// Whoever made the file before may have given it its name meanwhile.
bool IsStillAt(int fd, const fs::path& path) {
  struct stat open {};
  struct stat there {};
  return ::fstat(fd, &open) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         open.st_dev == there.st_dev && open.st_ino == there.st_ino;
}

std::uint64_t SizeOf(const ImageCacheEntry& entry) {
  return std::uint64_t{entry.height} * entry.width * 3;
}

}  // namespace

std::unique_ptr<ImageCacheBuild> ImageCacheBuild::Begin(
    const fs::path& file, const ImageCacheId& id,
    const std::function<bool()>& stopped) {
  std::unique_ptr<ImageCacheBuild> build(new ImageCacheBuild(file, id));
  if (!build->Lock()) return nullptr;
  build->Resume(stopped);
  return stopped() ? nullptr : std::move(build);
}

ImageCacheBuild::ImageCacheBuild(fs::path file, const ImageCacheId& id)
    : file_(std::move(file)),
      part_(file_.string() + ".part"),
      id_(id),
      claimed_(id.count),
      end_(PixelsOffset(id.count)) {}

bool ImageCacheBuild::Lock() {
  std::error_code ignored;
  fs::create_directories(file_.parent_path(), ignored);
  // Said now rather than when all the work is done.
  if (fs::is_directory(file_, ignored)) Fail(EISDIR);
  FileLock lock(UniqueFd(
      ::open(part_.c_str(),
             O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)));
  if (!lock) Fail(errno);
  const bool locked = lock.TryLock();
  fd_ = lock.Release();
  if (!locked && errno == EWOULDBLOCK) return false;
  if (!locked) Fail(errno);
  return IsStillAt(fd_.get(), part_);
}

// Takes what another left behind, if it is of these images; else begins anew.
void ImageCacheBuild::Resume(const std::function<bool()>& stopped) {
  ImageCacheHeader header;
  if (ReadAt(fd_.get(), &header, sizeof(header), 0) &&
      IsHeaderOf(header, id_)) {
    return TakeOver(stopped);
  }
  header = MakeImageCacheHeader(id_, /*size=*/0);
  if (::ftruncate(fd_.get(), 0) != 0 ||
      ::ftruncate(fd_.get(), static_cast<off_t>(end_)) != 0) {
    Fail(errno);
  }
  const int error = WriteAt(fd_.get(), BytesOf(header), 0);
  if (error != 0) Fail(error);
}

void ImageCacheBuild::TakeOver(const std::function<bool()>& stopped) {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) Fail(errno);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  for (std::uint64_t i = 0; i < id_.count && !stopped(); ++i) {
    ImageCacheEntry entry;
    const bool read = ReadAt(fd_.get(), &entry, sizeof(entry), EntryOffset(i));
    if (!read || !Stands(i, entry, size)) continue;
    claimed_[i] = true;
    ++done_;
    if (entry.state == ImageCacheState::kPixels) {
      end_ = std::max(end_, entry.offset + SizeOf(entry));
    }
  }
}

// A crash of the machine may have kept an entry and lost its pixels.
bool ImageCacheBuild::Stands(std::uint64_t i, const ImageCacheEntry& entry,
                             std::uint64_t size) const {
  if (!IsEntryOf(entry, i, id_, size)) return false;
  if (entry.state != ImageCacheState::kPixels) return true;
  std::vector<std::uint8_t> pixels(SizeOf(entry));
  return ReadAt(fd_.get(), pixels.data(), pixels.size(), entry.offset) &&
         ImageCacheChecksum(pixels) == entry.pixels_checksum;
}

bool ImageCacheBuild::Claim(std::size_t i) {
  const std::lock_guard lock(mutex_);
  if (!fault_.empty() || claimed_[i]) return false;
  claimed_[i] = true;
  return true;
}

std::optional<std::size_t> ImageCacheBuild::ClaimNext() {
  const std::lock_guard lock(mutex_);
  if (!fault_.empty()) return std::nullopt;
  while (next_ < claimed_.size() && claimed_[next_]) ++next_;
  if (next_ == claimed_.size()) return std::nullopt;
  claimed_[next_] = true;
  return next_;
}

void ImageCacheBuild::Put(std::size_t i, const ImageView& image) {
  Write(i,
        {.height = static_cast<std::uint32_t>(image.height),
         .width = static_cast<std::uint32_t>(image.width),
         .state = ImageCacheState::kPixels,
         .pixels_checksum = ImageCacheChecksum(PixelBytes(image))},
        image);
}

void ImageCacheBuild::PutUnreadable(std::size_t i) {
  Write(i, {.state = ImageCacheState::kUnreadable}, {});
}

bool ImageCacheBuild::failed() const {
  const std::lock_guard lock(mutex_);
  return !fault_.empty();
}

// The entry after the pixels: who takes over then finds both or neither.
void ImageCacheBuild::Write(std::size_t i, ImageCacheEntry entry,
                            const ImageView& image) {
  const std::span<const std::uint8_t> pixels = PixelBytes(image);
  {
    const std::lock_guard lock(mutex_);
    entry.offset = end_;
    end_ += pixels.size();
  }
  int error = WriteAt(fd_.get(), pixels, entry.offset);
  if (error == 0) {
    error = WriteAt(fd_.get(), BytesOf(Sealed(entry, i)), EntryOffset(i));
  }
  Done(error == 0 ? "" : SystemText(error));
}

void ImageCacheBuild::Done(const std::string& fault) {
  const std::lock_guard lock(mutex_);
  ++done_;
  if (fault_.empty()) fault_ = fault;
  if (fault_.empty() && std::has_single_bit(done_)) fault_ = LackOfRoom();
  done_changed_.notify_all();
}

// What is to come will be as large on the average as what is there. To find
// that out on a full disk would cost others their checkpoints.
std::string ImageCacheBuild::LackOfRoom() const {
  struct statvfs system {};
  if (done_ < kFewestForMean || ::fstatvfs(fd_.get(), &system) != 0 ||
      system.f_blocks == 0) {
    return "";
  }
  const double mean = static_cast<double>(end_ - PixelsOffset(id_.count)) /
                      static_cast<double>(done_);
  const double more = mean * static_cast<double>(id_.count - done_);
  const double free = static_cast<double>(system.f_bavail) *
                      static_cast<double>(system.f_frsize);
  if (more <= free) return "";
  return "needs about " + FormatBytes(static_cast<std::int64_t>(more)) +
         " more, and only " + FormatBytes(static_cast<std::int64_t>(free)) +
         " are free there";
}

void ImageCacheBuild::Finish() {
  std::unique_lock lock(mutex_);
  done_changed_.wait(lock,
                     [this] { return done_ == id_.count || !fault_.empty(); });
  if (!fault_.empty()) {
    throw Error(ErrorKind::kFailed,
                EscapeForTerminal(part_.string()) + ": " + fault_);
  }
  if (::ftruncate(fd_.get(), static_cast<off_t>(end_)) != 0) Fail(errno);
  const int error =
      WriteAt(fd_.get(), BytesOf(MakeImageCacheHeader(id_, /*size=*/end_)), 0);
  if (error != 0) Fail(error);
  if (::fsync(fd_.get()) != 0 || ::rename(part_.c_str(), file_.c_str()) != 0) {
    Fail(errno);
  }
}

void ImageCacheBuild::Discard() { ::unlink(part_.c_str()); }

void ImageCacheBuild::Fail(int error) const {
  throw Error(ErrorKind::kFailed,
              EscapeForTerminal(part_.string()) + ": " + SystemText(error));
}

}  // namespace dtrain

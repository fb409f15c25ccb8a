#include "engine/os/files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdlib.h>

#include "engine/base/error.h"
#include "engine/base/spread_bits.h"
#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// Removes a temporary file unless it got its final name.
class TemporaryName {
 public:
  explicit TemporaryName(fs::path path) : path_(std::move(path)) {}
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;
  ~TemporaryName() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  const fs::path& path() const { return path_; }
  void Keep() { path_.clear(); }

 private:
  fs::path path_;
};

}  // namespace

std::optional<SharedBytes> MapFile(const fs::path& file) {
  const UniqueFd fd(
      ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return std::nullopt;
  if (!S_ISREG(status.st_mode) || status.st_size == 0) return std::nullopt;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* start =
      ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), /*offset=*/0);
  if (start == MAP_FAILED) return std::nullopt;
  return SharedBytes{
      .owner = std::shared_ptr<const void>(
          start, [start, size](const void*) { ::munmap(start, size); }),
      .bytes = {static_cast<const std::uint8_t*>(start), size}};
}

void CannotWrite(const fs::path& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  throw Error(
      full ? ErrorKind::kDiskFull : ErrorKind::kStore,
      path.string() +
          ": cannot be written: " + std::generic_category().message(error) +
          (full ? "; free some space there" : "; check who may write there"));
}

bool WriteFully(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = EIO;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

void WriteBytes(int fd, std::span<const std::byte> bytes,
                const fs::path& path) {
  if (!WriteFully(fd, bytes)) CannotWrite(path, errno);
}

void SyncFile(int fd, const fs::path& path) {
  // A failed fsync is not repeated: the kernel has dropped the data by then and
  // a second call would report success.
  if (::fsync(fd) != 0) CannotWrite(path, errno);
}

void SyncDirectory(const fs::path& path) {
  const UniqueFd directory(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) CannotWrite(path, errno);
  SyncFile(directory.get(), path);
}

void WriteFileDurably(const fs::path& path, std::string_view text,
                      mode_t mode) {
  // Processes that write the same file must not share a temporary file.
  TemporaryName temporary(path.string() + "." + std::to_string(::getpid()) +
                          ".tmp");
  ::unlink(temporary.path().c_str());  // of a process that was killed
  const UniqueFd file(::open(temporary.path().c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file) CannotWrite(path, errno);
  WriteBytes(file.get(), std::as_bytes(std::span(text)), path);
  SyncFile(file.get(), path);
  if (::rename(temporary.path().c_str(), path.c_str()) != 0) {
    CannotWrite(path, errno);
  }
  temporary.Keep();
  SyncDirectory(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

bool IsOwnUser(uid_t owner) {
  const char* caller = ::geteuid() == 0 ? std::getenv("SUDO_UID") : nullptr;
  return owner == ::geteuid() ||
         (caller != nullptr && std::to_string(owner) == caller);
}

bool IsKernelFileSystem(const struct statfs& system) {
  constexpr std::array<std::uint32_t, 10> kMagic = {
      PROC_SUPER_MAGIC,    SYSFS_MAGIC,   DEBUGFS_MAGIC, TRACEFS_MAGIC,
      SECURITYFS_MAGIC,    BPF_FS_MAGIC,  NSFS_MAGIC,    CGROUP_SUPER_MAGIC,
      CGROUP2_SUPER_MAGIC, PSTOREFS_MAGIC};
  // f_type is a signed 64-bit number on some platforms; the constants are not.
  return std::ranges::count(kMagic, static_cast<std::uint32_t>(system.f_type)) >
         0;
}

ScratchDirectory::ScratchDirectory() {
  std::error_code ignored;
  std::string name = fs::temp_directory_path(ignored) / "dtrain-XXXXXX";
  if (::mkdtemp(name.data()) != nullptr) path_ = name;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void FileSetKey::Add(const fs::path& file) {
  std::error_code error;
  const fs::path path = fs::absolute(file, error);
  AddText(path.native());
  Mix(fs::file_size(path, error));
  Mix(static_cast<std::uint64_t>(
      fs::last_write_time(path, error).time_since_epoch().count()));
}

void FileSetKey::AddText(std::string_view text) {
  for (const char c : text) Mix(static_cast<unsigned char>(c));
}

void FileSetKey::Mix(std::uint64_t value) {
  value_ = SpreadBits(value_ ^ value);
}

}  // namespace dtrain

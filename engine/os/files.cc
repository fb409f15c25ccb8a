// A file survives a crash or power cut whole only if its data are on the disk
// before its name is: without the first fsync a file system may keep the new
// name and lose the data, without the fsync of the directory it may lose the
// name. So DurableFile writes a temporary file, syncs it, renames it, which is
// atomic, and syncs the directory.
//
// A failed write is not repaired: the temporary file is removed, and the old
// one under the name, if any, is as it was. The temporary file is in the same
// directory, because rename(2) works within one file system only, and is opened
// with O_EXCL and O_NOFOLLOW, because others may be able to write there.

#include "engine/os/files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdlib.h>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"

namespace dtrain {
namespace fs = std::filesystem;

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

std::optional<std::string> ReadFile(const fs::path& file,
                                    std::size_t max_bytes) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  constexpr std::size_t kMinChunk = 4096;
  struct stat status {};
  const bool sized = ::fstat(fd.get(), &status) == 0 && status.st_size > 0;
  // One byte more than the size, to meet the end of the file without growing.
  std::size_t chunk =
      sized ? static_cast<std::size_t>(status.st_size) + 1 : kMinChunk;
  std::string text;
  while (text.size() < max_bytes) {
    const std::size_t size = text.size();
    text.resize(size + std::min(chunk, max_bytes - size));
    const ssize_t count =
        ::read(fd.get(), text.data() + size, text.size() - size);
    text.resize(size + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) break;
    if (count < 0 && errno != EINTR) return std::nullopt;
    chunk = std::max(kMinChunk, text.size());
  }
  return std::make_optional(std::move(text));
}

Timestamp ModificationTime(const struct stat& status) {
  return std::chrono::duration_cast<Timestamp>(
      std::chrono::seconds(status.st_mtim.tv_sec) +
      std::chrono::nanoseconds(status.st_mtim.tv_nsec));
}

std::string ReadTail(const fs::path& file, std::streamoff max_bytes) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return "";
  in.seekg(std::max<std::streamoff>(in.tellg() - max_bytes, 0));
  return {std::istreambuf_iterator<char>(in), {}};
}

void CannotWrite(const fs::path& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  throw Error(
      full ? ErrorKind::kDiskFull : ErrorKind::kStore,
      path.string() + ": cannot be written: " + ErrnoText(error) +
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

DurableFile::DurableFile(fs::path path, mode_t mode) : path_(std::move(path)) {
  // Other processes may write the same file at the same time, in containers
  // even under the same process number: the temporary name is random.
  temporary_ = path_.string() + "." + RandomUuid().substr(0, 8) + ".tmp";
  file_.reset(::open(temporary_.c_str(),
                     O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                     mode));
  if (!file_) temporary_.clear();
}

DurableFile::~DurableFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

bool DurableFile::Write(std::span<const std::byte> bytes) {
  return WriteFully(file_.get(), bytes);
}

bool DurableFile::Write(std::string_view text) {
  return Write(std::as_bytes(std::span(text)));
}

bool DurableFile::Commit(Existing existing) {
  if (::fsync(file_.get()) != 0 || !Rename(existing)) return false;
  temporary_.clear();
  const fs::path parent = path_.has_parent_path() ? path_.parent_path() : ".";
  const UniqueFd directory(
      ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return directory && ::fsync(directory.get()) == 0;
}

bool DurableFile::Rename(Existing existing) {
  const char* from = temporary_.c_str();
  const char* to = path_.c_str();
  if (existing == Existing::kReplace) return ::rename(from, to) == 0;
  if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) {
    return true;
  }
  if (errno != EINVAL) return false;
  // The file system knows no flags; it may have hard links, which replace
  // nothing either. Without both, another file could appear just now.
  if (::link(from, to) == 0) return ::unlink(from) == 0;
  if (errno == EEXIST) return false;
  struct stat status {};
  if (::lstat(to, &status) == 0) {
    errno = EEXIST;
    return false;
  }
  return ::rename(from, to) == 0;
}

void WriteFileDurably(const fs::path& path, std::string_view text,
                      mode_t mode) {
  DurableFile file(path, mode);
  if (!file || !file.Write(text) || !file.Commit()) CannotWrite(path, errno);
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
  value_ = SplitMix64(value_ ^ value);
}

}  // namespace dtrain

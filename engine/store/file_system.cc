// Two questions about the file system below a store. Its kind, because SQLite's
// write-ahead log needs shared memory and locks that network file systems lack
// or get wrong. And its space: a reserve of 1 MiB is kept while a runner runs,
// and freed when the disk is full, so that the runner can still record why it
// stops. posix_fallocate, unlike ftruncate, makes the space really belong to
// the file.

#include "engine/store/file_system.h"

#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

struct KnownFileSystem {
  std::uint32_t magic;  // f_type of statfs(2)
  FileSystem::Kind kind;
  const char* name;
};

using Kind = FileSystem::Kind;

// <linux/magic.h> lists only file systems that are part of the kernel.
constexpr KnownFileSystem kKnown[] = {
    {0x00006969, Kind::kNetworked, "NFS"},
    {0x0000517B, Kind::kNetworked, "SMB"},
    {0xFF534D42, Kind::kNetworked, "CIFS"},
    {0xFE534D42, Kind::kNetworked, "SMB2"},
    {0x0BD00BD0, Kind::kNetworked, "Lustre"},
    {0x47504653, Kind::kNetworked, "GPFS"},
    {0x19830326, Kind::kNetworked, "BeeGFS"},
    {0x00C36400, Kind::kNetworked, "CephFS"},
    {0x5346414F, Kind::kNetworked, "AFS"},
    {0x6B414653, Kind::kNetworked, "AFS"},
    {0x01021997, Kind::kNetworked, "9p"},
    {0x73757245, Kind::kNetworked, "Coda"},
    {0xAAD7AAEA, Kind::kNetworked, "PanFS"},
    {0x65735546, Kind::kPerhaps, "FUSE"},
};

}  // namespace

FileSystem FindFileSystem(const std::filesystem::path& path) {
  struct statfs state {};
  std::filesystem::path there = path;
  while (::statfs(there.c_str(), &state) != 0) {
    const std::filesystem::path parent = there.parent_path();
    if (parent.empty() || parent == there) return {};
    there = parent;
  }
  // The field is signed and 64 bits wide; the numbers are neither.
  const auto magic = static_cast<std::uint32_t>(state.f_type);
  for (const KnownFileSystem& known : kKnown) {
    if (known.magic == magic) return {.kind = known.kind, .name = known.name};
  }
  return {};
}

namespace {

// Enough for the pages of a last transaction, in the write-ahead log and in the
// database.
constexpr off_t kReserveBytes = 1 << 20;

bool IsWhole(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 && status.st_size >= kReserveBytes;
}

}  // namespace

void KeepReserve(const StoreLayout& layout) {
  const std::string path = layout.Reserve().string();
  const UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  // If it fails for another reason, the run goes without a reserve.
  int error = errno;
  if (file) {
    if (IsWhole(file.get())) return;
    error = ::posix_fallocate(file.get(), 0, kReserveBytes);
  }
  if (error != ENOSPC && error != EDQUOT) return;
  ::unlink(path.c_str());
  throw Error(ErrorKind::kDiskFull,
              "store " + layout.root().string() + ": " + ErrnoText(error) +
                  ", not even for a reserve of " + FormatBytes(kReserveBytes) +
                  "; free some space, then run `dtrain resume`");
}

bool FreeReserve(const StoreLayout& layout) {
  return ::unlink(layout.Reserve().c_str()) == 0;
}

}  // namespace dtrain

#include "engine/store/file_system.h"

#include <cstdint>

#include <sys/vfs.h>

namespace dtrain {
namespace {

struct KnownFileSystem {
  std::uint32_t magic;  // as statfs(2) gives it
  FileSystem::Kind kind;
  const char* name;
};

using Kind = FileSystem::Kind;

// <linux/magic.h> has only those that are part of the kernel.
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

FileSystem FileSystemOf(const std::filesystem::path& path) {
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

}  // namespace dtrain

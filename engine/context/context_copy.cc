#include "engine/context/context_copy.h"

#include <array>
#include <cerrno>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/os/files.h"
#include "engine/os/sha256.h"
#include "engine/os/unique_fd.h"
#include "engine/store/file_tree.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPiece = 1 << 16;

bool IsAsListed(const struct stat& now, const ContextFile& file) {
  const struct stat& then = file.status;
  return S_ISREG(now.st_mode) && now.st_dev == then.st_dev &&
         now.st_ino == then.st_ino && now.st_size == then.st_size &&
         now.st_mtim.tv_sec == then.st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == then.st_mtim.tv_nsec;
}

class Copy {
 public:
  Copy(const ContextList& list, fs::path to, CopyAccess access)
      : list_(list),
        to_(std::move(to)),
        writable_(access == CopyAccess::kReadWrite ? S_IWUSR : 0) {}

  ContextManifest Run() {
    ContextManifest manifest;
    directories_.insert(to_);
    for (const ContextFile& file : list_.files) {
      manifest.files.push_back(CopyFile(file));
    }
    for (const fs::path& path : directories_) SyncDirectory(path);
    return manifest;
  }

 private:
  StoredFile CopyFile(const ContextFile& file) {
    const UniqueFd in(
        ::open(file.source.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!in) Refuse(file, errno);
    CheckUnchanged(in.get(), file);
    const fs::path path = to_ / file.path;
    MakeParents(path.parent_path());
    const UniqueFd out(::open(path.c_str(),
                              O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                              (file.executable ? 0500 : 0400) | writable_));
    if (!out) CannotWrite(path, errno);
    std::string sha256 = CopyBytes(file, in.get(), out.get(), path);
    CheckUnchanged(in.get(), file);
    SyncFile(out.get(), path);
    return {file.path, file.bytes, file.executable, std::move(sha256)};
  }

  std::string CopyBytes(const ContextFile& file, int in, int out,
                        const fs::path& path) const {
    Sha256 sha;
    std::int64_t bytes = 0;
    std::array<std::byte, kPiece> buffer;
    // One that grows without end must not fill the disk.
    while (bytes <= file.bytes) {
      const ssize_t got = ::read(in, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) Refuse(file, errno);
      if (got == 0) break;
      bytes += got;
      const std::span piece(buffer.data(), static_cast<std::size_t>(got));
      sha.Update(piece);
      WriteBytes(out, piece, path);
    }
    std::string sha256 = sha.Finish();
    const bool same = file.sha256.empty() || file.sha256 == sha256;
    if (bytes != file.bytes || !same) RefuseChanged(file);
    return sha256;
  }

  void CheckUnchanged(int fd, const ContextFile& file) const {
    // What was stored has a checksum; when it was written matters not.
    if (!file.sha256.empty()) return;
    struct stat now {};
    if (::fstat(fd, &now) != 0 || !IsAsListed(now, file)) RefuseChanged(file);
  }

  void MakeParents(const fs::path& directory) {
    if (!directories_.insert(directory).second) return;
    MakeParents(directory.parent_path());
    MakePrivateDirectories(directory);
  }

  [[noreturn]] void Refuse(const ContextFile& file, int error) const {
    if (error == ENOENT || error == ELOOP) RefuseChanged(file);
    throw Error(
        ErrorKind::kUsage,
        "context " + list_.directory.string() + ": '" + file.path +
            "' cannot be read: " + std::generic_category().message(error) +
            "; put it right, or name it in .detignore");
  }

  [[noreturn]] void RefuseChanged(const ContextFile& file) const {
    const std::string name =
        "context " + list_.directory.string() + ": '" + file.path + "' ";
    if (!file.sha256.empty()) {
      throw Error(ErrorKind::kDamaged,
                  name +
                      "is missing, or not as it was stored; restore it "
                      "from a backup");
    }
    throw Error(
        ErrorKind::kUsage,
        name +
            "changed or vanished while it was copied; try again when nothing "
            "writes to it, or name it in .detignore");
  }

  const ContextList& list_;
  const fs::path to_;
  const mode_t writable_;
  std::set<fs::path> directories_;
};

}  // namespace

ContextManifest CopyContext(const ContextList& list, const fs::path& to,
                            CopyAccess access) {
  return Copy(list, to, access).Run();
}

}  // namespace dtrain

#include "engine/fetch/part_file.h"

#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/sha256.h"

namespace dtrain {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;

[[noreturn]] void FailReading(const std::filesystem::path& path, int error) {
  throw Error(ErrorKind::kFailed, EscapeForTerminal(path.string()) +
                                      ": cannot be read: " +
                                      std::generic_category().message(error) +
                                      "; check the path and its rights");
}

}  // namespace

void FailWriting(const std::filesystem::path& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  throw Error(full ? ErrorKind::kDiskFull : ErrorKind::kFailed,
              EscapeForTerminal(path.string()) + ": cannot be written: " +
                  std::generic_category().message(error) +
                  (full ? "; free some space there, then say the same again: "
                          "what is there is kept; or go elsewhere with --to"
                        : "; check who may write there, or go elsewhere with "
                          "--to"));
}

PartFile::PartFile(std::filesystem::path path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(),
                   O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                   0666)) {
  struct stat status {};
  if (!file_ || ::fstat(file_.get(), &status) != 0) FailWriting(path_, errno);
  size_ = status.st_size;
}

int PartFile::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    size_ += count;
  }
  return 0;
}

void PartFile::Clear() {
  if (::ftruncate(file_.get(), 0) != 0) FailWriting(path_, errno);
  size_ = 0;
}

void PartFile::Sync() {
  if (::fsync(file_.get()) != 0) FailWriting(path_, errno);
}

std::optional<std::string> FileSha256(const std::filesystem::path& path,
                                      const std::function<bool()>& stop) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) FailReading(path, errno);
  Sha256 sha;
  std::vector<std::byte> piece(kPiece);
  while (true) {
    if (stop && stop()) return std::nullopt;
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) FailReading(path, errno);
    if (count == 0) return sha.Finish();
    sha.Update(std::span(piece).first(static_cast<std::size_t>(count)));
  }
}

}  // namespace dtrain

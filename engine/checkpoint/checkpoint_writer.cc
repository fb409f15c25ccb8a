#include "engine/checkpoint/checkpoint_writer.h"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <stdio.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/sha256.h"
#include "engine/os/system_error.h"

namespace dtrain {

namespace {

// So much of a file is in memory at a time.
constexpr std::size_t kPiece = std::size_t{1} << 20;

// What one can do about it, for the causes one can do something about.
std::string Remedy(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space there";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; check who may write there";
    case EIO:
      return "; check the disk";
    default:
      return "";
  }
}

// Writes all of `bytes`; false with errno set if that fails.
bool WriteBytes(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      if (count == 0) errno = EIO;
      return false;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

CheckpointWriter::CheckpointWriter(std::string path)
    : path_(std::move(path)),
      temporary_(path_ + std::string(kUnfinishedSuffix)) {
  const auto parent = std::filesystem::path(path_).parent_path();
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
  if (::mkdir(parent.c_str(), 0700) == 0) {
    // Where a trial's first checkpoint goes, its directory is new, too.
    const auto trial = parent.parent_path();
    for (const auto& above : {trial, trial.parent_path()}) {
      const UniqueFd names(::open(above.empty() ? "." : above.c_str(),
                                  O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (!names && errno == EACCES) continue;  // and so not made just now
      if (!names) Fail("", errno);
      Sync(names.get(), "");
    }
  } else if (errno != EEXIST) {
    Fail("", errno);
  }
  parent_.reset(::open(parent.c_str(), kFlags));
  if (!parent_) Fail("", errno);
  if (::mkdir(temporary_.c_str(), 0700) != 0) Fail("", errno);
  directory_.reset(::open(temporary_.c_str(), kFlags));
  if (!directory_) Fail("", errno);
}

CheckpointWriter::~CheckpointWriter() {
  if (committed_ || !directory_) return;
  // Best effort: what stays behind has the suffix .tmp and is no checkpoint, or
  // is whole and has no row.
  std::error_code ignored;
  std::filesystem::remove_all(renamed_ ? path_ : temporary_, ignored);
}

void CheckpointWriter::RequireSpace(std::int64_t bytes) const {
  struct statvfs system {};
  if (::fstatvfs(directory_.get(), &system) != 0) Fail("", errno);
  const auto free = static_cast<std::int64_t>(system.f_bavail) *
                    static_cast<std::int64_t>(system.f_frsize);
  if (free / 2 >= bytes) return;
  throw Error(ErrorKind::kDiskFull,
              "checkpoint " + path_ + ": needs " + FormatBytes(bytes) +
                  " and half as much again as a margin; only " +
                  FormatBytes(free) + " are free there" + Remedy(ENOSPC));
}

struct CheckpointWriter::Entry {
  std::string name;
  UniqueFd file;
  Sha256 sha;
  std::int64_t bytes = 0;
};

void CheckpointWriter::MakeParents(const std::string& name) {
  for (std::size_t slash = name.find('/'); slash != std::string::npos;
       slash = name.find('/', slash + 1)) {
    const std::string parent = name.substr(0, slash);
    if (!subdirectories_.insert(parent).second) continue;
    if (::mkdirat(directory_.get(), parent.c_str(), 0700) != 0) {
      Fail(parent, errno);
    }
  }
}

void CheckpointWriter::Create(Entry& entry) {
  const std::string& name = entry.name;
  MakeParents(name);
  entry.file.reset(
      ::openat(directory_.get(), name.c_str(),
               O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!entry.file) Fail(name, errno);
}

void CheckpointWriter::Append(Entry& entry,
                              std::span<const std::byte> bytes) const {
  if (!WriteBytes(entry.file.get(), bytes)) Fail(entry.name, errno);
  entry.sha.Update(bytes);
  entry.bytes += static_cast<std::int64_t>(bytes.size());
}

void CheckpointWriter::Finish(Entry& entry) {
  Sync(entry.file.get(), entry.name);
  if (::close(entry.file.release()) != 0) Fail(entry.name, errno);
  const std::string digest = entry.sha.Finish();
  entries_[entry.name] = {{"sha256", digest}, {"bytes", entry.bytes}};
  written_.files[entry.name] = digest;
  written_.bytes += entry.bytes;
}

void CheckpointWriter::Write(
    const std::string& name,
    std::span<const std::span<const std::byte>> pieces) {
  Entry entry{.name = name};
  Create(entry);
  for (const auto piece : pieces) Append(entry, piece);
  Finish(entry);
}

void CheckpointWriter::Copy(const std::string& name, int source,
                            const std::string& from) {
  Entry entry{.name = name};
  Create(entry);
  std::vector<std::byte> piece(kPiece);
  while (true) {
    const ssize_t count = ::read(source, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) ThrowSystemError("read " + from);
    if (count == 0) break;
    Append(entry, std::span(piece).first(static_cast<std::size_t>(count)));
  }
  Finish(entry);
}

void CheckpointWriter::Write(const std::string& name, std::string_view text) {
  const std::span<const std::byte> piece = std::as_bytes(std::span(text));
  Write(name, std::span(&piece, 1));
}

std::string ManifestText(const nlohmann::json& files) {
  const nlohmann::json manifest = {
      {"format", "dtrain-checkpoint"}, {"version", 1}, {"files", files}};
  return manifest.dump();
}

WrittenCheckpoint CheckpointWriter::Commit() {
  Write(kManifestName, ManifestText(entries_));
  for (const std::string& name : subdirectories_) {
    const UniqueFd inner(::openat(directory_.get(), name.c_str(),
                                  O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!inner) Fail(name, errno);
    Sync(inner.get(), name);
  }
  Sync(directory_.get(), "");
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(),
                  RENAME_NOREPLACE) != 0) {
    // Some file systems know no flags; the name is a fresh UUID.
    if (errno != EINVAL || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
      Fail("", errno);
    }
  }
  renamed_ = true;
  Sync(parent_.get(), "");
  committed_ = true;
  return written_;
}

void CheckpointWriter::Sync(int fd, const std::string& name) const {
  // Never tried again: a second try would succeed though the data is lost.
  if (::fsync(fd) != 0) Fail(name, errno);
}

void CheckpointWriter::Fail(const std::string& name, int error) const {
  const std::string file = name.empty() ? "" : "/" + name;
  const bool is_full = error == ENOSPC || error == EDQUOT;
  throw Error(is_full ? ErrorKind::kDiskFull : ErrorKind::kFailed,
              "checkpoint " + path_ + file + ": cannot be written: " +
                  std::generic_category().message(error) + Remedy(error));
}

}  // namespace dtrain

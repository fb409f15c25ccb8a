// A checkpoint is a directory of files with a manifest of their sizes and
// hashes. It is written as <path>.tmp and renamed, so that a crash or power cut
// at any moment leaves either no checkpoint or a complete one. The order is
// what makes this true: every file is written and synced; then the manifest;
// then the directories that hold the names of the files; only then the rename,
// and last the parent directory, which holds the new name. A failed fsync is
// never repeated, since the kernel has dropped the data and would report
// success. A reader compares every file with the manifest: one that is missing
// or differs by a bit makes the checkpoint damaged.
//
// Directories are opened once and files below them by openat(2), without
// following links: another process cannot lead a reader elsewhere by replacing
// a part of the path, and a name in a manifest is not trusted. The manifest
// itself has no checksum. Instead it must be, bit by bit, what is written for
// its values.

#include "engine/checkpoint/checkpoint_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <stdio.h>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/os/files.h"
#include "engine/os/sha256.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

// Bytes of a file that are in memory at a time.
constexpr std::size_t kPiece = std::size_t{1} << 20;

// Returns what a user can do about an error; empty if nothing is known.
std::string Remedy(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space there";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; check the permissions";
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
    // With a trial's first checkpoint, the trial's directory is new as well.
    const auto trial = parent.parent_path();
    for (const auto& above : {trial, trial.parent_path()}) {
      const UniqueFd names(::open(above.empty() ? "." : above.c_str(),
                                  O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (!names && errno == EACCES) continue;  // so it existed before
      if (!names) Fail("", errno);
      Sync(names.get(), "");
    }
  } else if (errno != EEXIST) {
    Fail("", errno);
  }
  parent_.reset(::open(parent.c_str(), kFlags));
  if (!parent_) Fail("", errno);
  // A UUID names the checkpoint, so a directory of this name would be another
  // writer's.
  if (::mkdir(temporary_.c_str(), 0700) != 0) Fail("", errno);
  directory_.reset(::open(temporary_.c_str(), kFlags));
  if (!directory_) Fail("", errno);
}

CheckpointWriter::~CheckpointWriter() {
  if (committed_ || !directory_) return;
  // Best effort: a directory left behind has the suffix .tmp, or is complete
  // and not in the store.
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
                  " and as much again as a margin; only " + FormatBytes(free) +
                  " are free there" + Remedy(ENOSPC));
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
    // Some file systems support no flags; the name is a new UUID.
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
  // Not repeated: a second call would succeed although the data is lost.
  if (::fsync(fd) != 0) Fail(name, errno);
}

void CheckpointWriter::Fail(const std::string& name, int error) const {
  const std::string file = name.empty() ? "" : "/" + name;
  const bool is_full = error == ENOSPC || error == EDQUOT;
  throw Error(is_full                 ? ErrorKind::kDiskFull
              : IsStorageFault(error) ? ErrorKind::kStore
                                      : ErrorKind::kFailed,
              "checkpoint " + path_ + file +
                  ": cannot be written: " + ErrnoText(error) + Remedy(error));
}

namespace {

using nlohmann::json;

constexpr std::int64_t kMaxManifest = 1 << 20;

[[noreturn]] void Damaged(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::kDamaged, "checkpoint " + path + ": " +
                                       Truncate(EscapeForTerminal(what), 200) +
                                       "; the checkpoint is damaged");
}

// Throws for a file that cannot be read. A lack of permission or memory, and a
// disk or server that does not answer, say nothing about the bytes; other
// errors mean damage.
[[noreturn]] void Unreadable(const std::string& path, const std::string& what,
                             int error) {
  const std::string text = what + ErrnoText(error);
  switch (error) {
    case EACCES:
    case EIO:
    case ENOTCONN:
    case EPERM:
    case ESTALE:
      throw Error(ErrorKind::kStore,
                  "checkpoint " + path + ": " + text +
                      "; fix that, or delete the checkpoint, and run `dtrain "
                      "resume`");
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      throw Error(ErrorKind::kFailed, "checkpoint " + path + ": " + text +
                                          "; fix that and run `dtrain resume`");
    default:
      Damaged(path, text);
  }
}

// Entry of the manifest for one file.
struct Entry {
  std::int64_t bytes = 0;
  std::string sha256;
};

// An open file and its size.
struct OpenFile {
  UniqueFd fd;
  std::int64_t bytes = 0;
};

// Opens the file `name`, which may contain slashes, below `directory`. No part
// of it may be a link. Returns an empty descriptor, with errno set, on failure.
UniqueFd OpenInside(int directory, const std::string& name) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const std::vector<std::string> parts = Split(name, '/');
  UniqueFd inner;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int flags = i + 1 < parts.size() ? kFlags | O_DIRECTORY : kFlags;
    const int from = inner ? inner.get() : directory;
    UniqueFd next(::openat(from, parts[i].c_str(), flags));
    if (!next) return {};
    inner = std::move(next);
  }
  return inner;
}

// Opens the file `name` of `directory`, which has at most `max` bytes, or
// exactly `exact` bytes if that is given.
OpenFile Open(const std::string& path, int directory, const std::string& name,
              std::int64_t max, std::optional<std::int64_t> exact) {
  UniqueFd file = OpenInside(directory, name);
  const auto fail = [&] {
    Unreadable(path, "'" + name + "' cannot be read: ", errno);
  };
  if (!file) fail();
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail();
  if (!S_ISREG(status.st_mode))
    Damaged(path, "'" + name + "' is not a regular file");
  if (status.st_size > max || (exact && status.st_size != *exact)) {
    Damaged(path, "'" + name + "' has " + std::to_string(status.st_size) +
                      " bytes, not " + std::to_string(exact.value_or(max)));
  }
  return {std::move(file), status.st_size};
}

// Fills `bytes` from the file.
void Fill(const std::string& path, int file, const std::string& name,
          std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::read(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      Unreadable(path, "'" + name + "' cannot be read: ", errno);
    }
    if (count == 0)
      Damaged(path, "'" + name + "' became shorter while it was read");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

std::vector<std::byte> ReadFile(const std::string& path, int directory,
                                const std::string& name, std::int64_t max,
                                std::optional<std::int64_t> exact) {
  const OpenFile file = Open(path, directory, name, max, exact);
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.bytes));
  Fill(path, file.fd.get(), name, bytes);
  return bytes;
}

[[noreturn]] void FailManifest(const std::string& path) {
  Damaged(path, std::string("'") + kManifestName + "' is not valid");
}

std::map<std::string, Entry> ParseManifest(const std::string& path,
                                           std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size());
  const json manifest = json::parse(text, nullptr, false);
  if (manifest.is_discarded() || NestsDeeperThan(manifest)) FailManifest(path);
  std::map<std::string, Entry> entries;
  try {
    if (manifest.at("format") != "dtrain-checkpoint" ||
        manifest.at("version") != 1 || manifest.size() != 3) {
      Damaged(path,
              std::string("'") + kManifestName +
                  "' has a format that this version of dtrain does not read");
    }
    for (const auto& [name, entry] : manifest.at("files").items()) {
      if (!entry.at("bytes").is_number_integer()) FailManifest(path);
      entries[name] = {.bytes = entry.at("bytes").get<std::int64_t>(),
                       .sha256 = entry.at("sha256").get<std::string>()};
    }
  } catch (const json::exception&) {
    FailManifest(path);
  }
  // Written again from the values, it must be the same to the bit.
  json files = json::object();
  for (const auto& [name, entry] : entries) {
    files[name] = {{"sha256", entry.sha256}, {"bytes", entry.bytes}};
  }
  if (ManifestText(files) != text) FailManifest(path);
  return entries;
}

UniqueFd OpenDirectory(const std::string& path) {
  UniqueFd directory(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!directory) Unreadable(path, "cannot be opened: ", errno);
  return directory;
}

// Refuses names that lead out of the directory or are not one file's only name.
void RequireName(const std::string& path, const std::string& name) {
  bool inside = name.find('\0') == std::string::npos;
  for (const std::string& part : Split(name, '/')) {
    inside = inside && !part.empty() && part != "." && part != "..";
  }
  if (!inside) FailManifest(path);
}

void RequireSum(const std::string& path, const std::string& name,
                const std::string& sum, const Entry& entry) {
  if (sum == entry.sha256) return;
  Damaged(path, "'" + name + "' does not match its checksum");
}

// Returns the contents of `name`, compared with the manifest.
std::vector<std::byte> ReadVerified(const std::string& path, int directory,
                                    const std::string& name,
                                    const Entry& entry) {
  RequireName(path, name);
  auto bytes = ReadFile(path, directory, name, entry.bytes, entry.bytes);
  RequireSum(path, name, ComputeSha256(bytes), entry);
  return bytes;
}

// Compares `name` with the manifest, reading it in pieces.
void CheckFile(const std::string& path, int directory, const std::string& name,
               const Entry& entry) {
  RequireName(path, name);
  const OpenFile file = Open(path, directory, name, entry.bytes, entry.bytes);
  std::vector<std::byte> piece(std::size_t{1} << 20);
  Sha256 sha;
  for (std::int64_t left = file.bytes; left > 0;) {
    const auto now = std::min<std::int64_t>(left, std::ssize(piece));
    const std::span bytes =
        std::span(piece).first(static_cast<std::size_t>(now));
    Fill(path, file.fd.get(), name, bytes);
    sha.Update(bytes);
    left -= now;
  }
  RequireSum(path, name, sha.Finish(), entry);
}

json ParseState(std::span<const std::byte> bytes) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  return json::parse(text, text + bytes.size(), nullptr,
                     /*allow_exceptions=*/false);
}

}  // namespace

CheckpointFiles CheckpointFiles::Read(const std::string& path) {
  const UniqueFd directory = OpenDirectory(path);
  const auto manifest = ReadFile(path, directory.get(), kManifestName,
                                 kMaxManifest, std::nullopt);
  CheckpointFiles checkpoint;
  checkpoint.path_ = path;
  for (const auto& [name, entry] : ParseManifest(path, manifest)) {
    checkpoint.files_.emplace(name,
                              ReadVerified(path, directory.get(), name, entry));
  }
  return checkpoint;
}

nlohmann::json CheckCheckpoint(const std::string& path) {
  const UniqueFd directory = OpenDirectory(path);
  const auto manifest = ReadFile(path, directory.get(), kManifestName,
                                 kMaxManifest, std::nullopt);
  const auto entries = ParseManifest(path, manifest);
  for (const auto& [name, entry] : entries) {
    CheckFile(path, directory.get(), name, entry);
  }
  const auto found = entries.find(kStateName);
  if (found == entries.end()) Damaged(path, "it has no 'state.json'");
  const auto bytes =
      ReadVerified(path, directory.get(), kStateName, found->second);
  return ParseState(bytes);
}

CheckpointSummary SummarizeCheckpoint(const std::string& path) {
  const UniqueFd directory = OpenDirectory(path);
  const auto manifest = ReadFile(path, directory.get(), kManifestName,
                                 kMaxManifest, std::nullopt);
  const auto entries = ParseManifest(path, manifest);
  const auto found = entries.find(kStateName);
  if (found == entries.end()) Damaged(path, "it has no 'state.json'");
  const auto bytes =
      ReadVerified(path, directory.get(), kStateName, found->second);
  const json state = ParseState(bytes);
  CheckpointSummary summary;
  try {
    summary.batches = state.at("batches").get<std::int64_t>();
    summary.epoch = state.at("epoch").get<double>();
    const auto trainer = state.find("trainer");
    if (trainer != state.end() && trainer->contains("unacknowledged")) {
      trainer->at("unacknowledged").get_to(summary.unacknowledged);
    }
  } catch (const json::exception&) {
    Damaged(path, "'state.json' is not valid");
  }
  // The manifest does not list itself.
  summary.bytes = static_cast<std::int64_t>(manifest.size());
  summary.files[kManifestName] = ComputeSha256(manifest);
  for (const auto& [name, entry] : entries) {
    summary.bytes += entry.bytes;
    summary.files[name] = entry.sha256;
  }
  return summary;
}

namespace {

std::filesystem::path LateReportsPath(const std::string& directory) {
  return std::filesystem::path(directory) / "late_reports.json";
}

}  // namespace

bool WriteLateReports(const std::string& directory, const std::string& uuid,
                      const nlohmann::json& trainer) {
  const json late = {{"checkpoint", uuid}, {"trainer", trainer}};
  DurableFile file(LateReportsPath(directory));
  return file &&
         file.Write(
             late.dump(-1, ' ', false, json::error_handler_t::replace)) &&
         file.Commit();
}

std::optional<nlohmann::json> ReadLateReports(const std::string& directory,
                                              const std::string& uuid) {
  const auto text = dtrain::ReadFile(LateReportsPath(directory));
  if (!text) return std::nullopt;
  const json late = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!late.is_object() || late.value("checkpoint", json()) != uuid) {
    return std::nullopt;
  }
  const auto trainer = late.find("trainer");
  if (trainer == late.end() || NestsDeeperThan(*trainer)) return std::nullopt;
  return *trainer;
}

std::span<const std::byte> CheckpointFiles::operator[](
    const std::string& name) const {
  const auto found = files_.find(name);
  if (found == files_.end()) return {};
  return found->second;
}

}  // namespace dtrain

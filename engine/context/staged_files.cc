// An experiment is recorded by a transaction of the database, but its files lie
// beside the database. They become durable first, in a directory "new-UUID"
// that their process keeps locked. Place, called in the transaction, renames
// them into the directory of the experiment. If the process dies, either the
// commit happened and the files are there, or it did not and they are removed
// later: a directory "new-UUID" without a lock is abandoned, and its file
// "experiment" names the experiment that may have got some of them.

#include "engine/context/staged_files.h"

#include <array>
#include <cerrno>
#include <fstream>
#include <span>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/os/files.h"
#include "engine/os/sha256.h"
#include "engine/store/file_tree.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// Prefix of the UUID in the name of a directory of staged files.
constexpr std::string_view kStagedPrefix = "new-";
// File in it with the id of the experiment that gets the files.
constexpr char kPlacedFile[] = "experiment";

UniqueFd OpenDirectory(const fs::path& path) {
  return UniqueFd(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

void WriteList(const fs::path& path, const std::string& text) {
  MakePrivateFile(path);
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) CannotWrite(path, errno);
  WriteBytes(file.get(), std::as_bytes(std::span(text)), path);
  SyncFile(file.get(), path);
}

// Makes a hard link, or a copy if the file system has no links.
void LinkFile(const fs::path& from, const fs::path& to) {
  if (::link(from.c_str(), to.c_str()) == 0) return;
  if (errno == ENOENT) {
    throw Error(ErrorKind::kNotFound,
                from.string() + ": no longer exists; name another checkpoint");
  }
  std::error_code error;
  fs::copy_file(from, to, error);
  if (error) CannotWrite(to, error.value());
  const UniqueFd file(::open(to.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) CannotWrite(to, errno);
  SyncFile(file.get(), to);
}

void LinkTree(const fs::path& from, const fs::path& to) {
  MakePrivateDirectories(to);
  for (const std::string& name : NamesIn(from)) {
    std::error_code error;
    if (fs::is_directory(fs::symlink_status(from / name, error))) {
      LinkTree(from / name, to / name);
    } else {
      LinkFile(from / name, to / name);
    }
  }
  SyncDirectory(to);
}

void RemoveQuietly(const fs::path& path) {
  try {
    RemoveTree(path);
  } catch (const Error&) {
    // `dtrain gc` reports the reason.
  }
}

// Places of the files that an experiment may have when it is recorded.
std::array<fs::path, 4> FinalPaths(const StoreLayout& layout,
                                   std::int64_t experiment) {
  const fs::path context = layout.Context(experiment);
  return {layout.ContextListFile(experiment), ContextOriginPath(context),
          context, layout.Sources(experiment)};
}

}  // namespace

StagedFiles::~StagedFiles() {
  if (left_) return;
  if (!directory_.empty()) RemoveQuietly(directory_);
  if (kept_ || experiment_ == 0) return;
  for (const fs::path& path : FinalPaths(layout_, experiment_)) {
    RemoveQuietly(path);
  }
}

void StagedFiles::MakeDirectory() {
  if (!directory_.empty()) return;
  MakeDurableDirectories(layout_.Experiments());
  directory_ =
      layout_.Experiments() / (std::string(kStagedPrefix) + RandomUuid());
  MakePrivateDirectories(directory_);
  lock_ = FileLock(OpenDirectory(directory_));
  // A search for abandoned files holds the lock only for a moment.
  if (!lock_ || !lock_.Lock()) CannotWrite(directory_, errno);
}

ContextManifest StagedFiles::AddContext(const ContextList& list) {
  MakeDirectory();
  const fs::path files = directory_ / layout_.Context(0).filename();
  MakePrivateDirectories(files);
  ContextManifest manifest = CopyContext(list, files, CopyAccess::kReadOnly);
  WriteList(directory_ / layout_.ContextListFile(0).filename(),
            manifest.Text());
  WriteList(ContextOriginPath(files), list.origin.Text());
  return manifest;
}

void StagedFiles::AddSource(const std::string& uuid,
                            const fs::path& directory) {
  MakeDirectory();
  const fs::path sources = directory_ / layout_.Sources(0).filename();
  const fs::path source = sources / uuid;
  LinkTree(directory, source);
  if (NamesIn(source).empty()) {
    throw Error(
        ErrorKind::kNotFound,
        directory.string() + ": no longer exists; name another checkpoint");
  }
  SyncDirectory(sources);
}

// The order: the id of the experiment, durably, so that the files can be found
// from "new-UUID"; then the renames; then the directories that have the new
// names. The commit follows in the caller.
void StagedFiles::Place(std::int64_t experiment) {
  // An id may be used again after a rollback, whose files may still lie there.
  const auto places = FinalPaths(layout_, experiment);
  for (const fs::path& path : places) RemoveTree(path);
  if (directory_.empty()) return;
  // For FindAbandonedFiles, if this process dies before the commit.
  WriteList(directory_ / kPlacedFile, std::to_string(experiment));
  SyncDirectory(directory_);
  MakePrivateDirectories(layout_.Experiment(experiment));
  experiment_ = experiment;
  for (const fs::path& path : places) {
    const fs::path from = directory_ / path.filename();
    if (::rename(from.c_str(), path.c_str()) != 0 && errno != ENOENT) {
      CannotWrite(path, errno);
    }
  }
  SyncDirectory(layout_.Experiment(experiment));
  SyncDirectory(layout_.Experiments());
}

ContextList ListStoredContext(const StoreLayout& layout,
                              std::int64_t experiment,
                              const std::string& hash) {
  const fs::path file = layout.ContextListFile(experiment);
  const std::string text = ReadFile(file).value_or("");
  if (ComputeSha256(std::as_bytes(std::span(text))) != hash) {
    throw Error(
        ErrorKind::kDamaged,
        file.string() +
            ": is missing or has changed since it was stored; restore it "
            "from a backup");
  }
  ContextList list{.directory = layout.Context(experiment)};
  for (StoredFile& stored : ContextManifest::Parse(text, file.string()).files) {
    list.bytes += stored.bytes;
    list.files.push_back({.path = stored.path,
                          .source = list.directory / stored.path,
                          .bytes = stored.bytes,
                          .executable = stored.executable,
                          .sha256 = std::move(stored.sha256)});
  }
  return list;
}

bool IsStaged(std::string_view name) { return name.starts_with(kStagedPrefix); }

std::vector<AbandonedFiles> FindAbandonedFiles(const StoreLayout& layout) {
  std::vector<AbandonedFiles> abandoned;
  for (const std::string& name : NamesIn(layout.Experiments())) {
    if (!IsStaged(name)) continue;
    const fs::path path = layout.Experiments() / name;
    FileLock directory(OpenDirectory(path));
    if (directory && directory.TryLock()) {
      AbandonedFiles& files = abandoned.emplace_back(path);
      std::ifstream(path / kPlacedFile) >> files.experiment;
    }
  }
  return abandoned;
}

void RemovePlacedFiles(const StoreLayout& layout, std::int64_t experiment) {
  for (const fs::path& path : FinalPaths(layout, experiment)) RemoveTree(path);
  std::error_code others;  // of another database, say
  fs::remove(layout.Experiment(experiment), others);
}

}  // namespace dtrain

#include "engine/context/staged_context.h"

#include <cerrno>
#include <fstream>
#include <span>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "engine/base/error.h"
#include "engine/checkpoint/sha256.h"
#include "engine/checkpoint/uuid.h"
#include "engine/context/context_copy.h"
#include "engine/context/disk_write.h"
#include "engine/store/file_tree.h"
#include "engine/store/private_files.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// What stands before the UUID in the name of a copy that nobody has yet.
constexpr std::string_view kStagedPrefix = "context-";
constexpr char kFiles[] = "files";
constexpr char kList[] = "list";

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

void Rename(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) CannotWrite(to, errno);
}

void RemoveQuietly(const fs::path& path) {
  try {
    RemoveTree(path);
  } catch (const Error&) {
    // `dtrain gc` says what is in its way.
  }
}

}  // namespace

StagedContext::StagedContext(const StoreLayout& layout, const ContextList& list)
    : layout_(layout) {
  MakePrivateDirectories(layout_.Experiments());
  const fs::path directory =
      layout_.Experiments() / (std::string(kStagedPrefix) + RandomUuid());
  MakePrivateDirectories(directory);
  lock_ = OpenDirectory(directory);
  // Who looks for abandoned ones holds it for no more than a moment.
  if (!lock_ || ::flock(lock_.get(), LOCK_EX) != 0) {
    CannotWrite(directory, errno);
  }
  directory_ = directory;
  try {
    MakePrivateDirectories(directory_ / kFiles);
    manifest_ = CopyContext(list, directory_ / kFiles);
    WriteList(directory_ / kList, manifest_.Text());
    SyncDirectory(directory_);
  } catch (const Error&) {
    RemoveQuietly(directory_);
    throw;
  }
}

StagedContext::~StagedContext() {
  RemoveQuietly(directory_);
  if (kept_ || experiment_ == 0) return;
  RemoveQuietly(layout_.Context(experiment_));
  RemoveQuietly(layout_.ContextListFile(experiment_));
}

void StagedContext::Place(std::int64_t experiment) {
  RemoveContext(layout_, experiment);
  MakePrivateDirectories(layout_.Experiment(experiment));
  experiment_ = experiment;
  Rename(directory_ / kList, layout_.ContextListFile(experiment));
  Rename(directory_ / kFiles, layout_.Context(experiment));
  SyncDirectory(layout_.Experiment(experiment));
  SyncDirectory(layout_.Experiments());
}

void RemoveContext(const StoreLayout& layout, std::int64_t experiment) {
  RemoveTree(layout.ContextListFile(experiment));
  RemoveTree(layout.Context(experiment));
}

ContextList ListStoredContext(const StoreLayout& layout,
                              std::int64_t experiment,
                              const std::string& hash) {
  const fs::path file = layout.ContextListFile(experiment);
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  if (Sha256Of(std::as_bytes(std::span(text.view()))) != hash) {
    throw Error(ErrorKind::kDamaged,
                file.string() +
                    ": is missing, or not as it was stored; restore it from a "
                    "backup");
  }
  ContextList list{.directory = layout.Context(experiment)};
  for (StoredFile& stored :
       ContextManifest::Parse(text.str(), file.string()).files) {
    list.bytes += stored.bytes;
    list.files.push_back({.path = stored.path,
                          .source = list.directory / stored.path,
                          .bytes = stored.bytes,
                          .executable = stored.executable,
                          .sha256 = std::move(stored.sha256)});
  }
  return list;
}

bool IsStagedContext(std::string_view name) {
  return name.starts_with(kStagedPrefix);
}

std::vector<fs::path> AbandonedContexts(const StoreLayout& layout) {
  std::vector<fs::path> abandoned;
  for (const std::string& name : NamesIn(layout.Experiments())) {
    if (!IsStagedContext(name)) continue;
    const fs::path path = layout.Experiments() / name;
    const UniqueFd directory = OpenDirectory(path);
    if (directory && ::flock(directory.get(), LOCK_EX | LOCK_NB) == 0) {
      abandoned.push_back(path);
    }
  }
  return abandoned;
}

}  // namespace dtrain

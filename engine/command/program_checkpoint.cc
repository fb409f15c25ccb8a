#include "engine/command/program_checkpoint.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/os/files.h"
#include "engine/os/system_error.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kVersion = 1;
// Limits of a manifest.
constexpr std::size_t kMaxFiles = 2'000;
constexpr std::size_t kMaxNameBytes = std::size_t{256} << 10;

struct SourceFile {
  std::string name;  // in the checkpoint
  fs::path path;
  struct stat status {};
};

[[noreturn]] void Refuse(const fs::path& path, const std::string& why) {
  throw Error(ErrorKind::kFailed,
              EscapeForTerminal(path.string()) + ": " + why);
}

struct stat StatusOf(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return status;
  Refuse(path, std::generic_category().message(errno));
}

SourceFile FileAt(const fs::path& path, const fs::path& name) {
  SourceFile file{.name = (fs::path(kProgramFiles) / name).generic_string(),
                  .path = path,
                  .status = StatusOf(path)};
  if (!S_ISREG(file.status.st_mode)) {
    Refuse(path, "is not a regular file; a checkpoint may contain only files");
  }
  if (!IsValidUtf8(file.name)) Refuse(path, "its name is not UTF-8");
  return file;
}

std::vector<SourceFile> FilesIn(const fs::path& directory) {
  std::vector<SourceFile> files;
  std::size_t name_bytes = 0;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(directory)) {
    if (entry.is_directory() && !entry.is_symlink()) continue;
    files.push_back(
        FileAt(entry.path(), entry.path().lexically_relative(directory)));
    name_bytes += files.back().name.size();
    if (files.size() > kMaxFiles || name_bytes > kMaxNameBytes) {
      Refuse(directory, "has more than " + std::to_string(kMaxFiles) +
                            " files, or their names are too long; pack them "
                            "into one");
    }
  }
  if (files.empty()) Refuse(directory, "has no files");
  return files;
}

std::vector<SourceFile> FilesOf(const fs::path& source) try {
  // A link, such as one to the newest checkpoint, is followed.
  const fs::path target = fs::canonical(source);
  if (fs::is_directory(target)) return FilesIn(target);
  return {FileAt(target, source.filename())};
} catch (const fs::filesystem_error& error) {
  Refuse(source, error.code().message());
}

bool IsSame(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec && a.st_ino == b.st_ino;
}

// True for files of kernel file systems: /proc/self/environ, for example, would
// be dtrain's own environment.
bool IsOnKernelsOwn(int file) {
  struct statfs state {};
  return ::fstatfs(file, &state) != 0 || IsKernelFileSystem(state);
}

void CopyInto(CheckpointWriter& writer, const SourceFile& source) {
  const UniqueFd file(
      ::open(source.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) ThrowSystemError("read " + source.path.string());
  if (IsOnKernelsOwn(file.get())) {
    Refuse(source.path,
           "is in a file system of the kernel; report a file that the program "
           "wrote");
  }
  writer.Copy(source.name, file.get(), source.path.string());
  if (IsSame(source.status, StatusOf(source.path))) return;
  Refuse(source.path,
         "was changed while it was copied; write each checkpoint to a path of "
         "its own");
}

}  // namespace

WrittenCheckpoint SaveProgramCheckpoint(const std::string& path,
                                        const fs::path& source,
                                        const ProgramState& state,
                                        const TrialSpec& spec) {
  const std::vector<SourceFile> files = FilesOf(source);
  std::int64_t bytes = 0;
  for (const SourceFile& file : files) bytes += file.status.st_size;
  CheckpointWriter writer(path);
  writer.RequireSpace(bytes);
  for (const SourceFile& file : files) CopyInto(writer, file);
  const json facts = {{"version", kVersion},
                      {"kind", "command"},
                      {"batches", state.trainer.batches},
                      {"epoch", state.epoch},
                      {"count", state.count},
                      {"trainer", state.trainer.ToJson()},
                      {"hparams", spec.hparams},
                      {"entrypoint", spec.entrypoint}};
  writer.Write(kStateName,
               facts.dump(-1, ' ', false, json::error_handler_t::replace));
  return writer.Commit();
}

ProgramState LoadProgramCheckpoint(const std::string& path) {
  const json facts = CheckCheckpoint(path);
  try {
    if (facts.at("kind") != "command" || facts.at("version") != kVersion) {
      throw Error(
          ErrorKind::kFailed,
          "checkpoint " + path + ": was written by another version of dtrain");
    }
    return {.trainer = TrainingState::FromJson(facts.at("trainer")),
            .epoch = facts.at("epoch").get<double>(),
            .count = facts.at("count").get<double>()};
  } catch (const json::exception& error) {
    throw Error(ErrorKind::kFailed, "checkpoint " + path +
                                        ": is not a command's, or its "
                                        "'state.json' is invalid: " +
                                        error.what());
  }
}

}  // namespace dtrain

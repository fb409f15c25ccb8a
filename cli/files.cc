// `dtrain files`: what a trial's program wrote in its working directory, as a
// list or as copies. Files of checkpoints are not among them.
//
// A name is a file or a directory, which stands for all files below it. All
// names are looked up, and all targets checked, before the first file is
// copied.

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/stores.h"
#include "engine/app/trial_files.h"
#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

struct FilesOptions : TableOptions {
  std::string target;
  std::vector<std::string> names;
  std::string out;
  bool force = false;
};

struct ListedFile {
  WrittenFile file;
  fs::path path;  // where it is, or its copy
};

Listing<ListedFile> FilesListing() {
  return {.name = "files",
          .columns = {{.name = "file", .elastic = true, .least = 16},
                      {.name = "bytes", .right = true},
                      {.name = "modified"},
                      {.name = "path", .elastic = true, .optional = true}},
          .json = [](const ListedFile& one) -> nlohmann::json {
            return {{"file", one.file.path},
                    {"bytes", one.file.bytes},
                    {"modified", TimeJson(one.file.modified)},
                    {"path", one.path.string()}};
          },
          .cells = [](const ListedFile& one) -> std::vector<Cell> {
            return {one.file.path,
                    Cell(FormatBytes(one.file.bytes),
                         std::to_string(one.file.bytes)),
                    FormatTime(one.file.modified), one.path.string()};
          }};
}

// Returns the files that `names` name; all without names.
std::vector<WrittenFile> SelectFiles(std::vector<WrittenFile> files,
                                     const std::vector<std::string>& names,
                                     TrialId trial) {
  if (names.empty()) return files;
  std::set<std::string> chosen;
  for (const std::string& name : names) {
    std::string plain = fs::path(name).lexically_normal().string();
    if (plain.ends_with('/')) plain.pop_back();
    const std::size_t before = chosen.size();
    for (const WrittenFile& file : files) {
      if (plain == "." || file.path == plain ||
          file.path.starts_with(plain + "/")) {
        chosen.insert(file.path);
      }
    }
    if (chosen.size() > before || chosen.contains(plain)) continue;
    std::vector<std::string> known;
    for (const WrittenFile& file : files) known.push_back(file.path);
    throw Error(ErrorKind::kNotFound, "trial " + ToString(trial) +
                                          " wrote no file '" + name + "'" +
                                          DidYouMean(name, known));
  }
  std::erase_if(files, [&](const WrittenFile& file) {
    return !chosen.contains(file.path);
  });
  return files;
}

void CopyFile(const fs::path& from, const fs::path& to, bool force) {
  const UniqueFd in(
      ::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  std::vector<std::byte> piece(1 << 20);
  NewFile file(to, force);
  while (true) {
    const ssize_t count =
        in ? ::read(in.get(), piece.data(), piece.size()) : -1;
    if (count == 0) break;
    if (count < 0 && in && errno == EINTR) continue;
    if (count < 0) {
      throw Error(ErrorKind::kFailed,
                  from.string() + ": cannot be read: " + ErrnoText(errno));
    }
    file.Write(std::span(piece).first(static_cast<std::size_t>(count)));
  }
  file.Keep();
}

// Copies the files below `directory`, under their names.
void CopyFiles(const fs::path& directory, bool force,
               std::vector<ListedFile>& files) {
  std::vector<fs::path> targets;
  for (const ListedFile& one : files) {
    const fs::path target = directory / one.file.path;
    std::error_code ignored;
    if (!force && fs::exists(fs::symlink_status(target, ignored))) {
      throw Error(ErrorKind::kUsage,
                  "--out: '" + target.string() +
                      "' exists already; choose another directory, or give "
                      "--force to replace files");
    }
    targets.push_back(target);
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::error_code error;
    fs::create_directories(targets[i].parent_path(), error);
    if (error) {
      throw Error(ErrorKind::kFailed,
                  "--out: '" + targets[i].parent_path().string() +
                      "' cannot be made: " + ErrnoText(error.value()));
    }
    CopyFile(files[i].path, targets[i], force);
    files[i].path = targets[i];
  }
}

int Files(const FilesOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const TrialRow row =
      FindOnlyTrial(store, ResolveTarget(store, options.target));
  const fs::path tree = FindTrialDirectory(store, row.id);
  const auto written =
      SelectFiles(ListTrialFiles(store, row.id), options.names, row.id);
  std::vector<ListedFile> files;
  std::int64_t bytes = 0;
  for (const WrittenFile& file : written) {
    bytes += file.bytes;
    files.push_back({.file = file, .path = tree / file.path});
  }
  if (!options.out.empty()) {
    CopyFiles(fs::absolute(options.out).lexically_normal(), options.force,
              files);
  }
  if (options.format() != Format::kText || !files.empty()) {
    PrintListing(FilesListing(), files, options.format(), globals,
                 {{"trial", ToString(row.id)},
                  {"directory", tree.string()},
                  {"bytes", bytes},
                  {"copied", !options.out.empty()}});
  }
  if (options.format() != Format::kText) return kExitDone;
  if (files.empty()) {
    PrintNotice(globals,
                "trial " + ToString(row.id) + " has no files of its own" +
                    (IsFinal(row.state) ? "" : " so far") +
                    ": what its program writes in its working directory is "
                    "listed here, checkpoints by 'dtrain checkpoints " +
                    ToString(row.id) + "'");
  } else {
    PrintNotice(globals, std::string(options.out.empty() ? "" : "copied ") +
                             CountText(files.size(), "file") + ", " +
                             FormatBytes(bytes) +
                             (options.out.empty() ? "; --out DIR copies them"
                                                  : " to " + options.out));
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpFiles(CLI::App& app) {
  auto options = std::make_shared<FilesOptions>();
  AddOption(app, "EXP", options->target,
            "Trial (3.7), or experiment (3) with one trial")
      .Completes(ValueKind::kTarget)
      .Required();
  AddOption(app, "NAME", options->names,
            "Only these files, or those below these directories");
  const CliOption out =
      AddOption(app, "--out", options->out,
                "Copy them to this directory, which is made if it is missing")
          .TypeName("DIR")
          .IsPath();
  AddFlag(app, "--force", options->force, "Replace existing files").Needs(out);
  AddTableOptions(app, *options);
  SetHelp(
      app,
      {.notes = "Lists the files that a trial's program wrote in its working "
                "directory, such as model.pt. 'gc --files' deletes them.",
       .exits = {{kExitDone},
                 {kExitFailed, "a file cannot be read or written"},
                 {kExitUsage},
                 {kExitNotFound},
                 {kExitStore}},
       .examples = {{"List what a trial has written", "dtrain files 3.7"},
                    {"Get its model", "dtrain files 3.7 model.pt --out ."}}});
  return RunWith(Files, options);
}

}  // namespace dtrain

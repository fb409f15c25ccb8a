// Output that many commands share. stdout has results, stderr what is said
// about them. YAML, JSON and CSV are escaped where stdout is a terminal, so
// that text of users and programs cannot control it; a file or pipe gets them
// unchanged. FinishOutput is the last step of a command: a full disk is found
// only when the buffer is written, and must not end as success. It is not an
// error if the reader of a pipe, such as `head`, ends early.

#include "cli/output.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iostream>
#include <utility>

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "engine/app/checkpoint_use.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/files.h"
#include "engine/os/system_error.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

// True if stdout is a pipe without a reader.
bool NobodyReads() {
  pollfd out{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&out, 1, /*timeout=*/0) == 1 && (out.revents & POLLERR) != 0;
}

}  // namespace

void AddJsonOption(CLI::App& app, JsonOption& options) {
  AddFlag(app, "--json", options.json, "Print one JSON document");
}

void AddTableOptions(CLI::App& app, TableOptions& options) {
  const CliOption json =
      AddFlag(app, "--json", options.json, "Print one JSON document");
  AddFlag(app, "--csv", options.csv, "Print CSV (RFC 4180)").Excludes(json);
}

void AddCheckpointUseOptions(CLI::App& app, CheckpointUseOptions& options) {
  AddOption(app, "CHECKPOINT", options.source,
            "First characters of a checkpoint ID, or a trial (3.7) or "
            "experiment (3) to use the checkpoint of its best validation")
      .Required();
  AddFlag(app, "--latest", options.latest,
          "Use the latest checkpoint of the trial, not the best");
  AddOption(app, "--split", options.split,
            "Data split: training, validation or test")
      .TypeName("SPLIT")
      .OneOf({"training", "validation", "test"})
      .ShowDefault();
  AddOption(app, "--data", options.data,
            "Read the data from DIR instead of the trial's data directory")
      .TypeName("DIR")
      .IsPath();
  AddOption(
      app, "--slots", options.slots,
      "Slots to run on: auto, all, none, cpu, cpu:N, gpu:N, most_free, or GPU "
      "numbers such as [0,1]")
      .TypeName("SLOTS")
      .Suggests({"auto", "all", "none", "cpu", "most_free"});
}

std::string CountColumn(Unit counted, Format format) {
  return std::string(
      UnitName(format == Format::kText ? counted : Unit::kBatches));
}

Cell HparamsCell(const nlohmann::json& space, const nlohmann::json& hparams) {
  return {FormatHparamsBriefly(SearchedHparams(space, hparams)),
          DumpJson(hparams)};
}

std::string WrapForStdout(std::string_view text, std::size_t first,
                          std::size_t indent) {
  return WrapText(EscapeForTerminal(text), first, indent,
                  GetTerminalMode(STDOUT_FILENO, ColorChoice::kNever).width);
}

void PrintFact(const std::string& name, const std::string& value) {
  constexpr std::size_t kValues = 16;  // the column where they begin
  if (value.empty()) return;
  std::string label = "  " + EscapeForTerminal(name);
  label.resize(std::max(label.size() + 2, kValues), ' ');
  std::cout << label << WrapForStdout(value, DisplayWidth(label), kValues)
            << '\n';
}

void ExplainState(const ExperimentRow& row, const GlobalOptions& globals) {
  const std::string id = std::to_string(row.id);
  if (row.state == State::kInterrupted || row.state == State::kPaused) {
    PrintError(globals,
               "experiment " + id + " is " + std::string(StateName(row.state)) +
                   "; resume with: " + CommandFor(globals, "resume " + id));
  } else if (row.state == State::kError || row.state == State::kCanceled) {
    PrintError(globals, "experiment " + id + " is " +
                            std::string(StateName(row.state)) +
                            (row.error.empty() ? "" : ": " + row.error));
  }
}

bool StdoutIsTerminal() { return isatty(STDOUT_FILENO) != 0; }

void PrintYaml(const std::string& yaml) {
  if (!StdoutIsTerminal()) {
    std::cout << yaml;
    return;
  }
  for (const std::string& line : Split(yaml, '\n')) {
    std::cout << EscapeForTerminal(line) << '\n';
  }
}

void PrintJson(const nlohmann::json& document) {
  std::cout << DumpJson(document, /*indent=*/2, StdoutIsTerminal()) << '\n';
}

void PrintTable(const Table& table, Format format,
                const GlobalOptions& globals) {
  if (format == Format::kCsv) {
    table.PrintCsv(std::cout, StdoutIsTerminal());
  } else {
    table.PrintText(std::cout, GetTerminalMode(STDOUT_FILENO, globals.color));
  }
}

void WriteNamedFile(const std::string& option, const std::string& path,
                    const std::string& text, const std::string& remedy) {
  std::ofstream file(path, std::ios::trunc | std::ios::binary);
  file << text << std::flush;
  if (file) return;
  throw Error(ErrorKind::kFailed, option + ": cannot write '" + path +
                                      "': " + ErrnoText() + "; " + remedy);
}

namespace {

namespace fs = std::filesystem;

[[noreturn]] void RefuseExisting(const std::string& option,
                                 const fs::path& path) {
  throw Error(ErrorKind::kUsage,
              option + ": '" + path.string() +
                  "' already exists; choose another file, or use --force");
}

}  // namespace

NewFile::NewFile(fs::path path, bool replace, std::string option)
    : path_(std::move(path)), replace_(replace), option_(std::move(option)) {
  RequireAbsent();
  file_ = std::make_unique<DurableFile>(path_, /*mode=*/0666);
  if (!*file_) Fail(errno);
}

NewFile::~NewFile() = default;

void NewFile::Fail(int error) const {
  const char* remedy = error == ENOSPC || error == EDQUOT
                           ? "free some space there, or choose another file"
                           : "choose a file in a writable directory";
  throw Error(ErrorKind::kFailed, option_ + ": cannot write '" +
                                      path_.string() +
                                      "': " + ErrnoText(error) + "; " + remedy);
}

void NewFile::RequireAbsent() const {
  struct stat status {};
  if (::lstat(path_.c_str(), &status) != 0) return;
  if (!replace_) RefuseExisting(option_, path_);
  if (S_ISREG(status.st_mode)) return;
  throw Error(
      ErrorKind::kUsage,
      option_ + ": '" + path_.string() +
          "' is not a regular file, so it is not replaced; choose another");
}

void NewFile::Write(std::span<const std::byte> bytes) {
  if (!file_->Write(bytes)) Fail(errno);
  bytes_ += static_cast<std::int64_t>(bytes.size());
}

void NewFile::Keep() {
  using Existing = DurableFile::Existing;
  if (file_->Commit(replace_ ? Existing::kReplace : Existing::kKeep)) return;
  if (errno == EEXIST && !replace_) RefuseExisting(option_, path_);
  Fail(errno);
}

void FinishOutput() {
  errno = 0;
  std::cout.flush();
  if (std::cout.good() || errno == EPIPE || NobodyReads()) return;
  const std::string why = errno != 0 ? ErrnoText() : "write error";
  throw Error(ErrorKind::kFailed,
              "stdout: cannot write: " + why + "; the output is incomplete");
}

}  // namespace dtrain

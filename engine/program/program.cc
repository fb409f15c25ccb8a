// A user's program: its process, its pipes and socket, what it is told, and its
// checkpoints.
//
// The program gets two pipes beside its standard streams: reports (descriptor
// 3) and operations (4). The descriptors that this process keeps are moved to
// 10 and above, so that 3 and 4 are free in the child. Nothing here waits for
// the program: reports are read by the caller, operations are written without
// blocking, and the end is seen at a descriptor.
//
// This process is a subreaper, so Reap also collects orphans of the program. A
// signal to all walks the table of processes: a program may start others in
// groups of their own.
//
// What a trial is told stands in three places with the same content: the
// placeholders of its command, environment variables, and the JSON file that
// DTRAIN_TRIAL names (docs/protocol.md). A variable whose value exceeds the
// kernel's limit is left out; the file has it.
//
// A checkpoint is a copy of the file or directory that the program reported,
// below `files/`, with dtrain's own state beside it. The program goes on while
// it is copied, so a file whose size, time or inode has changed meanwhile makes
// the checkpoint fail. Links inside a directory are refused, as are files of
// kernel file systems such as /proc: a checkpoint holds only what the program
// wrote.

#include "engine/program/program.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/placeholders.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/os/files.h"
#include "engine/os/installation.h"
#include "engine/os/process.h"
#include "engine/os/spawn.h"
#include "engine/os/system_error.h"

namespace dtrain {
namespace {

// Above the numbers that the program's own descriptors get.
constexpr int kFirstFree = 10;

UniqueFd Lifted(const UniqueFd& fd) {
  UniqueFd high(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstFree));
  if (!high) ThrowSystemError("make a pipe");
  return high;
}

Pipe MakeHighPipe() {
  const Pipe low = MakePipe();
  return {Lifted(low.reading), Lifted(low.writing)};
}

// Moves inherited descriptors, such as locks of slots, out of the way of the
// program's own.
void MoveAside(int fd) {
  const int flags = ::fcntl(fd, F_GETFD);
  if (flags < 0 || (flags & FD_CLOEXEC) != 0) return;
  if (::fcntl(fd, F_DUPFD, kFirstFree) >= 0) ::close(fd);
}

// Limit of the kernel for one argument or variable with its zero byte
// (MAX_ARG_STRLEN, 32 pages).
constexpr std::size_t kMaxArgument = std::size_t{128} << 10;

// Names what is too long for execve().
std::string LongestText(const ProgramStart& start) {
  std::string name = "the command";
  std::size_t longest = 0, all = 0;
  for (const std::string& word : start.words) {
    all += word.size() + 1;
    if (word.size() <= longest) continue;
    longest = word.size();
    name = "an argument, '" + Truncate(ToValidUtf8(word), 40) + "',";
  }
  for (const auto& [variable, value] : start.environment) {
    const std::size_t size = variable.size() + value.size() + 1;
    all += size + 1;
    if (size <= longest) continue;
    longest = size;
    name = "the variable " + variable;
  }
  return "; arguments and variables that dtrain sets have " +
         std::to_string(all) + " bytes, of which " + name + " has " +
         std::to_string(longest) +
         "; let the program read the hyperparameter from the file that "
         "DTRAIN_TRIAL names";
}

std::string HintFor(int error, const ProgramStart& start) {
  if (error == E2BIG) return LongestText(start);
  if (error != ENOEXEC) return "";
  return "; a script needs a first line such as #!/bin/sh";
}

}  // namespace

Program::Program(const ProgramStart& start) {
  MoveAside(kReportFd);
  MoveAside(kOperationsFd);
  Pipe reports = MakeHighPipe();
  Pipe operations = MakeHighPipe();
  ::fcntl(operations.writing.get(), F_SETFL, O_NONBLOCK);
  Execute(start, reports.writing.get(), operations.reading.get());
  reports_ = std::move(reports.reading);
  operations_ = std::move(operations.writing);
}

Program::~Program() {
  if (exit_) return;
  Signal(SIGKILL);
  ::waitpid(static_cast<pid_t>(pid_), nullptr, 0);
}

void Program::Execute(const ProgramStart& start, int reports, int operations) {
  Spawn spawn;
  const UniqueFd output = Capture(STDOUT_FILENO, output_, spawn);
  const UniqueFd errors = Capture(STDERR_FILENO, errors_, spawn);
  const pid_t pid = spawn.ChangeDirectory(start.directory)
                        .Duplicate(reports, kReportFd)
                        .Duplicate(operations, kOperationsFd)
                        .ResetSignals({SIGUSR2})  // see RunTrialHost
                        .Environment(EnvironmentWith(start.environment))
                        .Run(start.file, start.words);
  if (pid < 0) {
    const int error = errno;
    throw Error(ErrorKind::kFailed, "cannot execute " + start.file.string() +
                                        " in " + start.directory.string() +
                                        ": " + ErrnoText(error) +
                                        HintFor(error, start));
  }
  pid_ = pid;
  exit_fd_ = OpenExitFd(pid);
  if (exit_fd_) return;
  const int cause = errno;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  ThrowSystemError("watch the program", cause);
}

// Makes the child's descriptor `fd` the writing end of a pipe, and returns that
// end.
UniqueFd Program::Capture(int fd, UniqueFd& reading, Spawn& spawn) {
  Pipe pipe = MakeHighPipe();
  spawn.Duplicate(pipe.writing.get(), fd);
  reading = std::move(pipe.reading);
  return std::move(pipe.writing);
}

bool Program::WriteLine(std::string_view line) {
  // Shorter than PIPE_BUF: written completely or not at all.
  told_ = ::write(operations_.get(), line.data(), line.size()) >= 0;
  return told_ || errno == EPIPE;
}

bool Program::HasReadAll() const {
  int left = 0;
  return told_ && ::ioctl(operations_.get(), FIONREAD, &left) == 0 && left == 0;
}

void Program::Signal(int signal) {
  if (!exit_) ::kill(static_cast<pid_t>(pid_), signal);
}

void Program::SignalAll(int signal) {
  Signal(signal);
  // A parent's number is known before those of its children are looked at.
  std::set<std::int64_t> family = {pid_};
  for (bool grown = true; grown;) {
    grown = false;
    for (const Process& process : ReadProcesses()) {
      if (!family.contains(process.parent)) continue;
      if (!family.insert(process.pid).second) continue;
      grown = true;
      ::kill(static_cast<pid_t>(process.pid), signal);
    }
  }
}

std::optional<ExitStatus> Program::Reap() {
  if (exit_) return exit_;
  int status = 0;
  while (true) {
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (ended < 0 && errno == EINTR) continue;
    if (ended < 0) return exit_ = ExitStatus();  // unknown
    if (ended == 0) return std::nullopt;
    // Orphans of the program become children of this process.
    if (ended == static_cast<pid_t>(pid_)) break;
  }
  exit_ = WIFEXITED(status) ? ExitStatus{.code = WEXITSTATUS(status)}
                            : ExitStatus{.signal = WTERMSIG(status)};
  return exit_;
}

namespace {

constexpr int kMaxWaiting = 16;

sockaddr_un Address(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

}  // namespace

ProgramSocket::ProgramSocket(const std::filesystem::path& directory)
    : path_(directory / "socket"),
      fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  if (path_.size() >= sizeof(sockaddr_un::sun_path)) {
    path_ = elsewhere_.emplace().path() / "socket";
  }
  // A socket left over from a process that was killed.
  ::unlink(path_.c_str());
  const sockaddr_un address = Address(path_);
  if (!fd_ ||
      ::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address),
             sizeof address) != 0 ||
      ::listen(fd_.get(), kMaxWaiting) != 0) {
    ThrowSystemError("listen on " + path_);
  }
}

ProgramSocket::~ProgramSocket() { ::unlink(path_.c_str()); }

UniqueFd ProgramSocket::Accept() {
  return UniqueFd(
      ::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

namespace {

using nlohmann::json;
using Variables = std::vector<std::pair<std::string, std::string>>;

json ProgramCheckpointJson(const ProgramPaths& paths, Unit unit) {
  if (paths.checkpoint.empty()) return nullptr;
  json checkpoint = {{"path", paths.checkpoint.string()},
                     {"batches", paths.at.trainer.batches},
                     {"epochs", paths.at.epoch},
                     {"validated", paths.validated}};
  checkpoint[UnitName(unit)] = paths.at.count;
  // Whole numbers are written without a fraction.
  for (auto& [name, value] : checkpoint.items()) {
    if (!value.is_number_float()) continue;
    const auto number = value.get<double>();
    const auto whole = static_cast<std::int64_t>(number);
    if (static_cast<double>(whole) == number) value = whole;
  }
  return checkpoint;
}

std::string ToText(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return FormatNumber(value.get<double>());
  return value.dump();
}

void AddHparams(const std::string& prefix, const json& hparams,
                Variables& variables) {
  for (const auto& [name, value] : hparams.items()) {
    std::string variable = prefix + "_";
    for (const char c : name) {
      const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9');
      variable += fits ? c : '_';
    }
    if (value.is_object()) {
      AddHparams(variable, value, variables);
    } else if (!value.is_array() && !value.is_null()) {
      // A longer value would make execve fail with E2BIG for the whole program.
      const std::string text = ToText(value);
      const bool fits = variable.size() + text.size() + 2 <= kMaxArgument;
      if (fits && text.find('\0') == text.npos) {
        variables.emplace_back(variable, text);
      }
    }
  }
}

// Returns the value of {length}.
Length LengthOfProgram(const TrialSpec& spec, Length until) {
  return spec.metrics && spec.stops_trials ? spec.max_length.value_or(until)
                                           : until;
}

std::string PlaceholderValue(const TemplatePart& part, const TrialSpec& spec,
                             Length until, const ProgramPaths& paths) {
  const std::string& name = part.text;
  const json* value = FindMember(spec.hparams, name);
  if (part.is_flag()) {
    if (value != nullptr && (value->is_boolean() || value->is_null())) {
      return *value == true ? part.on : part.off;
    }
    throw Error(ErrorKind::kFailed,
                "{" + name + ":" + part.on + "} needs true or false, but '" +
                    name + "' is " + (value ? value->dump() : "missing"));
  }
  if (value != nullptr) return ToText(*value);
  if (name == "length") {
    return std::to_string(LengthOfProgram(spec, until).count);
  }
  if (name == "checkpoint") return paths.checkpoint.string();
  if (name == "directory") return spec.context;
  if (name == "seed") return std::to_string(spec.seed);
  if (name == "trial") return ToString(spec.id);
  throw Error(ErrorKind::kFailed, "the trial has no hyperparameter '" + name +
                                      "' for {" + name + "} in its command");
}

}  // namespace

std::vector<std::string> ProgramWords(const TrialSpec& spec, Length until,
                                      const ProgramPaths& paths) {
  if (!spec.placeholders) return spec.command;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < spec.command.size(); ++i) {
    const std::string& word = spec.command[i];
    const auto only = OnlyPlaceholder(word);
    const bool is_flag = only && only->is_flag();
    const json* value =
        only && !is_flag ? FindMember(spec.hparams, only->text) : nullptr;
    // By rules 1, null is the text "null".
    const bool is_null =
        spec.rules >= 2 && value != nullptr && value->is_null();
    // A hyperparameter is absent from the trial by its condition: no other name
    // is unknown.
    bool has_absent = false;
    FillTemplate(word, [&](const TemplatePart& part) {
      static const std::set<std::string> kOwn = {"checkpoint", "directory",
                                                 "length", "seed", "trial"};
      has_absent |= FindMember(spec.hparams, part.text) == nullptr &&
                    !kOwn.contains(part.text);
      return std::string();
    });
    if (is_null || has_absent) {
      // The option whose value it would be: `--teacher {teacher}`.
      // As far as its text tells.
      const std::string& before = spec.command[i > 0 ? i - 1 : 0];
      const bool is_value = i > 1 && word.starts_with('{') &&
                            before.size() > 1 && before.starts_with('-') &&
                            before != "--" && before.find('=') == before.npos &&
                            !(before[1] >= '0' && before[1] <= '9');
      if (is_value) words.pop_back();
      continue;
    }
    words.push_back(FillTemplate(word, [&](const TemplatePart& part) {
      return PlaceholderValue(part, spec, until, paths);
    }));
    if (is_flag && words.back().empty()) {
      words.pop_back();
      continue;
    }
    if (words.back().size() >= kMaxArgument) {
      throw Error(ErrorKind::kFailed,
                  "with its value, '" + word + "' has " +
                      std::to_string(words.back().size()) +
                      " bytes, but an argument has at most " +
                      std::to_string(kMaxArgument - 1) +
                      "; let the program read the hyperparameter from the file "
                      "that DTRAIN_TRIAL names");
    }
    if (words.back().find('\0') == std::string::npos) continue;
    throw Error(ErrorKind::kFailed,
                "a value for '" + word +
                    "' has a zero byte, which no argument can have");
  }
  return words;
}

std::vector<std::string> WithoutPlaced(std::vector<std::string> names,
                                       const TrialSpec& spec) {
  if (!spec.placeholders) return names;
  for (const std::string& word : spec.command) {
    FillTemplate(word, [&](const TemplatePart& part) {
      std::erase_if(names, [&](const std::string& name) {
        return name == part.text || name.starts_with(part.text + ".");
      });
      return std::string();
    });
  }
  return names;
}

std::optional<Length> LengthInWords(const TrialSpec& spec, Length until) {
  if (!spec.placeholders || FindMember(spec.hparams, "length") != nullptr) {
    return std::nullopt;
  }
  bool found = false;
  for (const std::string& word : spec.command) {
    FillTemplate(word, [&](const TemplatePart& part) {
      found = found || part.text == "length";
      return std::string();
    });
  }
  if (!found) return std::nullopt;
  return LengthOfProgram(spec, until);
}

nlohmann::json LengthToJson(Length length) {
  return {{std::string(UnitName(length.unit)), length.count}};
}

json DescribeTrial(const TrialSpec& spec, Length until,
                   const ProgramPaths& paths) {
  const TrainerSettings& settings = spec.settings;
  return {
      {"protocol", kProgramProtocol},
      {"experiment", spec.id.experiment},
      {"trial", spec.id.number},
      {"run", spec.run},
      {"rules", spec.rules},
      {"hyperparameters", spec.hparams},
      {"alternatives", spec.alternatives},
      {"data", spec.data},
      {"seed", spec.seed},
      {"until", until.count > 0 ? LengthToJson(until) : json(nullptr)},
      {"checkpoint", ProgramCheckpointJson(paths, until.unit)},
      {"warm_start", paths.warm_start.empty()
                         ? json(nullptr)
                         : json(paths.warm_start.string())},
      {"directory", paths.scratch.string()},
      {"devices", spec.gpus},
      {"gpu_share", spec.gpu_share},
      {"threads", spec.threads},
      {"rank", spec.rank},
      {"world_size", spec.world_size},
      {"metric", settings.searcher_metric},
      {"requires_metric", settings.requires_metric},
      {"smaller_is_better", settings.smaller_is_better},
      {"time_metric", settings.time_metric.empty()
                          ? json(nullptr)
                          : json(settings.time_metric)},
      {"scheduling_unit", settings.scheduling_unit},
      {"min_validation_period", LengthToJson(settings.min_validation_period)},
      {"min_checkpoint_period", LengthToJson(settings.min_checkpoint_period)},
      {"checkpoint_policy", settings.checkpoint_policy},
      {"perform_initial_validation", settings.perform_initial_validation},
      {"records_per_epoch", settings.records_per_epoch}};
}

Variables ProgramVariables(const TrialSpec& spec, Length until,
                           const ProgramPaths& paths) {
  Variables variables = {
      {"DTRAIN_TRIAL", paths.description.string()},
      {"DTRAIN_REPORT_FD", std::to_string(kReportFd)},
      {"DTRAIN_OPERATIONS_FD", std::to_string(kOperationsFd)},
      {"DTRAIN_SOCKET", paths.socket},
      {"DTRAIN_DIRECTORY", paths.scratch.string()},
      {"DTRAIN_SEED", std::to_string(spec.seed)},
      {"DTRAIN_UNIT", std::string(UnitName(until.unit))},
      {"DTRAIN_UNTIL",
       until.count > 0 ? std::to_string(until.count) : std::string()},
      {"DTRAIN_CHECKPOINT", paths.checkpoint.string()},
      {"DTRAIN_DONE", paths.checkpoint.empty() ? std::string("0")
                                               : FormatNumber(paths.at.count)}};
  if (!paths.origin.empty()) {
    variables.emplace_back("DTRAIN_CONTEXT", paths.origin);
  }
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    variables.emplace_back("OMP_NUM_THREADS", std::to_string(spec.threads));
  }
  // Python looks for modules in the directories that the user has set, then in
  // that of the module `dtrain`, if it is installed beside this program.
  std::string path = (InstallPrefix() / "lib" / "dtrain" / "python").string();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const std::string users = ProcessVariable("PYTHONPATH").value_or("");
    if (!users.empty()) path = users + ":" + path;
    variables.emplace_back("PYTHONPATH", std::move(path));
  }
  // Python would keep its output until it ends.
  if (spec.metrics && spec.metrics->is_printed() &&
      std::getenv("PYTHONUNBUFFERED") == nullptr) {
    variables.emplace_back("PYTHONUNBUFFERED", "1");
  }
  AddHparams("DTRAIN_HPARAM", spec.hparams, variables);
  return variables;
}

namespace {

namespace fs = std::filesystem;

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

struct stat ReadStatus(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return status;
  Refuse(path, ErrnoText());
}

SourceFile FileAt(const fs::path& path, const fs::path& name) {
  SourceFile file{.name = (fs::path(kProgramFiles) / name).generic_string(),
                  .path = path,
                  .status = ReadStatus(path)};
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

std::vector<SourceFile> ListSourceFiles(const fs::path& source) try {
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

void CopyInto(CheckpointWriter& writer, const SourceFile& source) {
  const UniqueFd file(
      ::open(source.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) ThrowSystemError("read " + source.path.string());
  // /proc/self/environ, for example, would be dtrain's own environment.
  struct statfs state {};
  if (::fstatfs(file.get(), &state) != 0 || IsKernelFileSystem(state)) {
    Refuse(source.path,
           "is in a file system of the kernel; report a file that the program "
           "wrote");
  }
  writer.Copy(source.name, file.get(), source.path.string());
  if (IsSame(source.status, ReadStatus(source.path))) return;
  Refuse(source.path,
         "was changed while it was copied; write each checkpoint to a path of "
         "its own");
}

}  // namespace

WrittenCheckpoint SaveProgramCheckpoint(const std::string& path,
                                        const fs::path& source,
                                        const ProgramState& state,
                                        const TrialSpec& spec) {
  const std::vector<SourceFile> files = ListSourceFiles(source);
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

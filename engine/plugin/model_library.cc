// A compiled model is a shared library in the user's cache, in a directory that
// is named after a hash of its sources, headers, flags and compiler and of this
// build of dtrain. Two models never share a directory, and a change of any of
// these compiles again.
//
//   CACHE/KEY.lock      held by the process that compiles
//   CACHE/KEY.partial   its directory until everything is written and synced
//   CACHE/KEY           the library, and trials.json with its SHA-256
//
// The library is executed as this user without a question, so a cache hit is
// believed only if nobody else can have written it: the files and the cache
// belong to this user and are writable by no one else, no directory above can
// be renamed by others, and the library has the recorded SHA-256, which also
// finds a file that a crash left incomplete. A cache that fails these checks is
// refused; a library that fails them is compiled again.

#include "engine/plugin/model_library.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <grp.h>
#include <nlohmann/json.hpp>
#include <pwd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/file_lock.h"
#include "engine/os/files.h"
#include "engine/os/installation.h"
#include "engine/os/sha256.h"
#include "engine/os/spawn.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"
#include "engine/plugin/model_sources.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool IsProgram(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) &&
         ::access(file.c_str(), X_OK) == 0;
}

std::optional<fs::path> FindInPath(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream places(path == nullptr ? "" : path);
  std::string place;
  while (std::getline(places, place, ':')) {
    if (!place.empty() && IsProgram(fs::path(place) / program)) {
      return fs::path(place) / program;
    }
  }
  return std::nullopt;
}

// Paths are recorded relative to the prefix, so that an installation can be
// moved, or to LibTorch if they begin with kTorch.
fs::path Below(const fs::path& prefix, const std::string& path) {
  constexpr std::string_view kTorch = "{torch}/";
  if (path.starts_with(kTorch)) {
    return FindLibTorch(prefix) / path.substr(kTorch.size());
  }
  return path.empty() ? fs::path() : prefix / path;
}

std::string Text(const fs::path& file) { return ReadFile(file).value_or(""); }

ModelBuild FromJson(const json& object, const fs::path& prefix) {
  ModelBuild build{.compiler = object.at("compiler").get<std::string>(),
                   .flags = object.at("flags"),
                   .link_flags = object.at("link_flags"),
                   .abi = Text(prefix / "include" / "dtrain" / "abi.h")};
  for (const std::string path : object.at("include")) {
    const fs::path directory = Below(prefix, path);
    // The compiler searches it already. Naming it would move it before the C++
    // library, whose #include_next would then miss the C headers.
    if (directory == "/usr/include") continue;
    build.flags.push_back("-isystem");
    build.flags.push_back(directory.string());
  }
  for (const std::string path : object.at("libraries")) {
    build.link_flags.push_back(Below(prefix, path).string());
  }
  build.precompiled = Below(prefix, object.at("precompiled"));
  std::error_code ignored;
  if (!fs::exists(build.precompiled.string() + ".gch", ignored)) {
    build.precompiled.clear();
  }
  return build;
}

}  // namespace

ModelBuild ReadModelBuild(const fs::path& prefix) {
  const fs::path file = prefix / "lib" / "dtrain" / "model_build.json";
  const auto text = ReadFile(file);
  try {
    if (text) return FromJson(json::parse(*text), prefix);
  } catch (const json::exception& error) {
    throw Error(ErrorKind::kFailed, file.string() +
                                        ": is damaged: " + error.what() +
                                        "; build or install dtrain again");
  }
  throw Error(ErrorKind::kFailed,
              file.string() +
                  ": the settings for compiling models are missing; build or "
                  "install dtrain with LibTorch");
}

fs::path FindCompiler(const ModelBuild& build) {
  if (IsProgram(build.compiler)) return build.compiler;
  for (const char* name : {"c++", "g++"}) {
    if (const auto found = FindInPath(name)) return *found;
  }
  throw Error(ErrorKind::kUsage,
              "no C++ compiler found for model_def.cpp: neither " +
                  build.compiler.string() +
                  ", with which dtrain was built, nor c++ or g++ in PATH; "
                  "install one (Debian: apt-get install g++)");
}

namespace {

constexpr const char* kLibrary = "model_def.so";
constexpr const char* kTrials = "trials.json";

[[noreturn]] void Refuse(const fs::path& where, const std::string& why) {
  throw Error(ErrorKind::kUsage, where.string() + ": " + why);
}

// Size and time tell an updated compiler from the old one of the same name.
std::string CompilerMark(const fs::path& compiler) {
  struct stat status {};
  if (::stat(compiler.c_str(), &status) != 0) return compiler.string();
  return compiler.string() + '\n' + std::to_string(status.st_size) + '\n' +
         std::to_string(status.st_mtim.tv_sec);
}

std::string Key(const ModelSources& sources, const ModelBuild& build,
                const fs::path& compiler) {
  const std::string text = Join(
      std::array{build.abi, CompilerMark(compiler), Join(build.flags, "\n"),
                 Join(build.link_flags, "\n"), ContentHash(sources)},
      "\n\n");
  return ComputeSha256(std::as_bytes(std::span(text))).substr(0, 40);
}

// True if only this user can have written the file.
bool IsPrivate(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 &&
         (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) &&
         status.st_uid == ::geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// True if this user is the only member of the group.
bool IsOfThisUserAlone(gid_t group) {
  const passwd* user = ::getpwuid(::geteuid());
  const std::string name = user == nullptr ? "" : user->pw_name;
  const struct group* found = ::getgrgid(group);
  return found != nullptr && !name.empty() && name == found->gr_name &&
         (found->gr_mem[0] == nullptr ||
          (name == found->gr_mem[0] && found->gr_mem[1] == nullptr));
}

// True if other users can replace the contents of `directory`.
bool IsOpenToOthers(const fs::path& directory) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0) return false;
  if (status.st_uid != ::geteuid() && status.st_uid != 0) return true;
  if ((status.st_mode & S_ISVTX) != 0) return false;
  if ((status.st_mode & S_IWOTH) != 0) return true;
  return (status.st_mode & S_IWGRP) != 0 && !IsOfThisUserAlone(status.st_gid);
}

// Creates the directory with access for this user only, whatever the umask.
void MakePrivate(const fs::path& directory) {
  if (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return;
  if (errno == ENOENT && directory.has_relative_path()) {
    MakePrivate(directory.parent_path());
    if (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return;
  }
  Refuse(directory, std::string("cannot write: ") + ErrnoText());
}

// The libraries are executed as this user, so only this user may write them.
void RequirePrivateCache(const fs::path& cache) {
  MakePrivate(cache);
  std::error_code error;
  const fs::path real = fs::canonical(cache, error);
  for (fs::path above = real; above.has_relative_path();) {
    above = above.parent_path();
    if (!IsOpenToOthers(above)) continue;
    Refuse(above,
           "other users can replace its contents, and compiled models are "
           "executed from below it; 'chmod go-w' if it is yours, or set "
           "XDG_CACHE_HOME "
           "to a directory of your own");
  }
  if (!fs::is_directory(cache, error)) {
    Refuse(cache, "cannot write: it is not a directory");
  }
  if (IsPrivate(cache)) return;
  Refuse(cache,
         "belongs to another user or may be written by others, and compiled "
         "models are executed; remove it, or set XDG_CACHE_HOME to a directory "
         "of your own");
}

// Returns the library in `directory` if it is complete and unchanged.
std::optional<ModelLibrary> Cached(const fs::path& directory) {
  ModelLibrary library{.file = directory / kLibrary};
  for (const fs::path& path : {directory, library.file, directory / kTrials}) {
    if (!IsPrivate(path)) return std::nullopt;
  }
  const json made =
      json::parse(ReadFile(directory / kTrials).value_or(""), nullptr,
                  /*allow_exceptions=*/false);
  try {
    if (!made.is_object()) return std::nullopt;  // of an earlier version
    if (made.at("sha256") != Sha256OfFile(library.file)) return std::nullopt;
    library.trials = made.at("trials");
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return library;
}

// Held while one process compiles; the others then find its result.
FileLock Lock(const fs::path& file) {
  FileLock lock = FileLock::Open(file);
  // Without the lock two processes may compile the same model: only a waste.
  if (lock) static_cast<void>(lock.Lock());
  if (!lock) Refuse(file, std::string("cannot write: ") + ErrnoText());
  return lock;
}

// One compilation, in a directory of its own.
class Compilation {
 public:
  Compilation(const ModelSources& sources, const ModelTools& tools,
              fs::path compiler, fs::path directory)
      : sources_(sources),
        tools_(tools),
        compiler_(std::move(compiler)),
        directory_(std::move(directory)) {}

  void Run() {
    CompileSources();
    // Before linking, and after the compiler has listed what it read (-MMD).
    CheckDependencies();
    Link();
    RemoveScratch();
    WriteTrials(ListTrials());
  }

 private:
  fs::path Scratch(std::size_t i, const char* extension) const {
    return directory_ / (std::to_string(i) + extension);
  }

  void CompileSources() {
    std::vector<ProgramRun> runs;
    for (std::size_t i = 0; i < sources_.sources.size(); ++i) {
      runs.push_back({.argv = CompileCommand(i), .output = Scratch(i, ".txt")});
    }
    bool failed = false;
    for (const ProgramResult& end : RunPrograms(runs, tools_.jobs)) {
      failed |= !Succeeded(end);
    }
    if (failed) Refuse(MainFile(), "does not compile, see above");
  }

  std::vector<std::string> CompileCommand(std::size_t i) const {
    std::vector<std::string> command = {compiler_.string()};
    const ModelBuild& build = tools_.build;
    if (!build.precompiled.empty()) {
      command.insert(command.end(), {"-include", build.precompiled.string()});
    }
    command.insert(command.end(), build.flags.begin(), build.flags.end());
    if (tools_.color) command.push_back("-fdiagnostics-color=always");
    command.insert(command.end(),
                   {"-I", sources_.directory.string(), "-MMD", "-MF",
                    Scratch(i, ".d").string(), "-o", Scratch(i, ".o").string(),
                    "-c", (sources_.directory / sources_.sources[i]).string()});
    return command;
  }

  // Files outside of the directory are not kept with the experiment.
  void CheckDependencies() const {
    for (std::size_t i = 0; i < sources_.sources.size(); ++i) {
      const auto outside = FirstOutside(Scratch(i, ".d"), sources_.real_paths,
                                        tools_.build.precompiled);
      if (outside.empty()) continue;
      Refuse(sources_.directory / sources_.sources[i],
             "includes " + outside.string() +
                 ", which is not kept with the experiment; move it into the "
                 "directory of model_def.cpp as a .h or .hpp file that neither "
                 ".gitignore nor .detignore excludes");
    }
  }

  void Link() {
    std::vector<std::string> command = {compiler_.string(), "-shared", "-o",
                                        (directory_ / kLibrary).string(),
                                        "-Wl,-z,defs"};
    for (std::size_t i = 0; i < sources_.sources.size(); ++i) {
      command.push_back(Scratch(i, ".o").string());
    }
    const auto& flags = tools_.build.link_flags;
    command.insert(command.end(), flags.begin(), flags.end());
    if (!Succeeded(RunOne(std::move(command), "link.txt"))) {
      Refuse(MainFile(), "does not link, see above");
    }
  }

  void RemoveScratch() const {
    std::error_code ignored;
    for (std::size_t i = 0; i < sources_.sources.size(); ++i) {
      for (const char* extension : {".o", ".d", ".txt"}) {
        fs::remove(Scratch(i, extension), ignored);
      }
    }
  }

  // Opens the library as a trial will.
  std::vector<std::string> ListTrials() {
    const ProgramResult end = RunOne({tools_.trial_host.string(), "--trials",
                                      (directory_ / kLibrary).string()},
                                     "trials.txt");
    const json trials = json::parse(end.output, nullptr, false);
    if (!end.success() || !trials.is_array()) {
      Refuse(MainFile(), end.output.empty() ? "cannot be opened"
                                            : EscapeForTerminal(end.output));
    }
    return trials;
  }

  // Written last: its presence means that the library is complete.
  void WriteTrials(const std::vector<std::string>& trials) const {
    const json made = {{"trials", trials},
                       {"sha256", Sha256OfFile(directory_ / kLibrary)}};
    std::ofstream out(directory_ / kTrials);
    if (!(out << made.dump() << std::flush)) {
      Refuse(directory_, "cannot write there; is the disk full?");
    }
    out.close();
    for (const char* name : {kLibrary, kTrials}) {
      const fs::path path = directory_ / name;
      ::chmod(path.c_str(), 0600);
      const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      SyncFile(file.get(), path);
    }
    SyncDirectory(directory_);
  }

  ProgramResult RunOne(std::vector<std::string> command, const char* output) {
    const std::vector<ProgramRun> run = {
        {.argv = std::move(command), .output = directory_ / output}};
    return RunPrograms(run, 1).front();
  }

  // Passes on the compiler's output, including warnings.
  bool Succeeded(const ProgramResult& end) const {
    if (!end.output.empty()) tools_.say_output(end.output);
    if (!end.not_started.empty()) {
      Refuse(compiler_, "cannot be run: " + end.not_started);
    }
    if (end.signal != 0) {
      Refuse(MainFile(), "the compiler was killed by signal " +
                             std::to_string(end.signal) +
                             "; it needs about 1.5 GB of memory per file");
    }
    if (end.exit_code < 0) {
      Refuse(MainFile(), "how the compiler ended is unknown; try again");
    }
    return end.success();
  }

  fs::path MainFile() const { return sources_.directory / "model_def.cpp"; }

  const ModelSources& sources_;
  const ModelTools& tools_;
  const fs::path compiler_;
  const fs::path directory_;
};

}  // namespace

ModelLibrary CompileModel(const fs::path& directory, const ModelTools& tools) {
  const fs::path compiler = FindCompiler(tools.build);
  const ModelSources sources = FindModelSources(directory);
  const std::string key = Key(sources, tools.build, compiler);
  const fs::path made = tools.cache / key;
  RequirePrivateCache(tools.cache);
  if (auto library = Cached(made)) return *std::move(library);
  std::error_code error;
  const FileLock lock = Lock(tools.cache / (key + ".lock"));
  if (auto library = Cached(made)) return *std::move(library);

  tools.say_progress(
      "compiling " + (sources.directory / "model_def.cpp").string() +
      (tools.build.precompiled.empty() ? " (about a minute)" : ""));
  // The order: compile into a directory that no reader looks at, sync the files
  // and the directory, rename it, sync the cache. Only the holder of the lock
  // gets here.
  const fs::path scratch = tools.cache / (key + ".partial");
  fs::remove_all(scratch, error);  // left by a process that was killed
  if (::mkdir(scratch.c_str(), 0700) != 0) {
    Refuse(scratch, std::string("cannot write: ") + ErrnoText());
  }
  Compilation(sources, tools, compiler, scratch).Run();
  fs::remove_all(made, error);
  fs::rename(scratch, made, error);
  if (error) Refuse(made, "cannot write: " + error.message());
  SyncDirectory(tools.cache);
  if (auto library = Cached(made)) return *std::move(library);
  Refuse(made, "differs from what was just written there; try again");
}

std::vector<fs::path> ParseDependencies(const std::string& rule) {
  std::vector<fs::path> files;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) files.emplace_back(std::exchange(word, {}));
  };
  // The target's name may contain colons, but none followed by a space.
  std::size_t i = rule.find(": ");
  for (i = i == rule.npos ? rule.size() : i + 2; i < rule.size(); ++i) {
    const char c = rule[i];
    const char next = i + 1 < rule.size() ? rule[i + 1] : '\n';
    if (c == '\\' && next == '\n') {
      end_word();
      ++i;
    } else if ((c == '\\' && (next == ' ' || next == '#' || next == '\\')) ||
               (c == '$' && next == '$')) {
      word += next;
      ++i;
    } else if (c == ' ' || c == '\n') {
      end_word();
    } else {
      word += c;
    }
  }
  end_word();
  return files;
}

fs::path FirstOutside(const fs::path& rule_file,
                      const std::set<fs::path>& real_paths,
                      const fs::path& allowed) {
  const std::string rule = ReadFile(rule_file).value_or("");
  std::error_code ignored;
  for (const fs::path& file : ParseDependencies(rule)) {
    const fs::path real = fs::weakly_canonical(file, ignored);
    if (!real_paths.contains(real) && file != allowed) return file;
  }
  return {};
}

namespace {

constexpr std::size_t kMaxOutput = std::size_t{1} << 20;

// Returns -1 with errno set if it cannot be started.
pid_t Start(const ProgramRun& run) {
  return Spawn()
      .Open(STDIN_FILENO, "/dev/null", O_RDONLY)
      .Open(STDOUT_FILENO, run.output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND,
            0600)
      .Duplicate(STDOUT_FILENO, STDERR_FILENO)
      .RunFromPath(run.argv);
}

}  // namespace

std::vector<ProgramResult> RunPrograms(const std::vector<ProgramRun>& runs,
                                       std::size_t at_once) {
  std::vector<ProgramResult> ends(runs.size());
  std::vector<pid_t> pids(runs.size(), -1);
  std::size_t awaited = 0;
  const auto await_next = [&] {
    if (pids[awaited] > 0) {
      const ExitStatus status = AwaitExit(pids[awaited]);
      ends[awaited].exit_code = status.code;
      ends[awaited].signal = status.signal;
    }
    ++awaited;
  };
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i - awaited >= std::max<std::size_t>(at_once, 1)) await_next();
    pids[i] = Start(runs[i]);
    if (pids[i] > 0) continue;
    ends[i].not_started = ErrnoText();
    ends[i].exit_code = -1;
  }
  while (awaited < runs.size()) await_next();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ends[i].output = ReadFile(runs[i].output, kMaxOutput).value_or("");
  }
  return ends;
}

}  // namespace dtrain

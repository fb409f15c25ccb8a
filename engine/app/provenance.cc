// The recorded origin of an experiment.
//
// The commit is read from the files of the repository, without git: git
// executes programs that a repository's configuration names, and the working
// directory may contain someone else's repository. Only whether tracked files
// have changed needs `git status`, which is skipped if the configuration could
// make it execute or fetch something, and is limited to one second.

#include "engine/app/provenance.h"

#include <algorithm>
#include <cctype>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/Version.hpp>
#include <SQLiteCpp/SQLiteCpp.h>
#include <archive.h>
#include <curl/curlver.h>
#include <nlohmann/json.hpp>
#include <pwd.h>

#include "engine/app/build_info.h"
#include "engine/base/clock.h"
#include "engine/base/text.h"
#include "engine/os/files.h"
#include "engine/os/installation.h"
#include "engine/os/spawn.h"
#include "engine/serve/web_server.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

constexpr std::size_t kLongest = std::size_t{1} << 20;

// Runs a program without a shell and returns its standard output; none if it
// is not found, fails, or exceeds `limit`, and is killed.
std::optional<std::string> ChildOutput(const std::vector<std::string>& argv,
                                       Duration limit) {
  Pipe pipe = MakePipe();
  const pid_t pid = Spawn()
                        .Open(STDIN_FILENO, "/dev/null", O_RDONLY)
                        .Duplicate(pipe.writing.get(), STDOUT_FILENO)
                        .Open(STDERR_FILENO, "/dev/null", O_WRONLY)
                        .RunFromPath(argv);
  pipe.writing.reset();
  if (pid < 0) return std::nullopt;
  const auto text = ReadUntil(pipe.reading.get(),
                              Clock::System().monotonic() + limit, kLongest);
  if (!text) kill(pid, SIGKILL);
  return AwaitExit(pid).code == 0 ? text : std::nullopt;
}

namespace fs = std::filesystem;
using nlohmann::json;

constexpr Duration kGitLimit = std::chrono::seconds(1);

// Reads a file of a repository, which may belong to anyone; returns nothing if
// it is large or not a regular file.
std::optional<std::string> ReadSmallFile(const fs::path& path) {
  constexpr std::size_t kMax = 4'000'000;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  auto text = ReadFile(path, kMax);
  if (text && text->size() == kMax) text.reset();
  return text;
}

std::optional<std::string> FirstLine(const fs::path& path) {
  auto text = ReadSmallFile(path);
  if (text) text->resize(std::min(text->find_first_of("\r\n"), text->size()));
  return text;
}

// The git directory of a working tree, and the one shared by all working trees
// of the repository: gitrepository-layout(5).
struct GitDirectories {
  fs::path own;
  fs::path shared;
};

std::optional<GitDirectories> FindGitDirectories(const fs::path& start) {
  std::error_code error;
  fs::path directory = fs::canonical(start, error);
  if (error) return std::nullopt;
  while (true) {
    fs::path own = directory / ".git";
    if (const auto line = FirstLine(own);
        line && line->starts_with("gitdir: ")) {
      own = directory / line->substr(8);  // of a worktree or submodule
    }
    if (fs::is_directory(own, error)) {
      const auto shared = FirstLine(own / "commondir");
      return GitDirectories{.own = own, .shared = shared ? own / *shared : own};
    }
    if (directory == directory.parent_path()) return std::nullopt;
    directory = directory.parent_path();
  }
}

bool IsObjectName(const std::string& text) {
  return (text.size() == 40 || text.size() == 64) &&
         text.find_first_not_of("0123456789abcdef") == text.npos;
}

// Returns the commit of HEAD without calling git, which may execute programs
// named in the repository's configuration.
json Commit(const GitDirectories& git) {
  std::string line = FirstLine(git.own / "HEAD").value_or("");
  constexpr std::string_view kRef = "ref: ";
  if (!line.starts_with(kRef)) return IsObjectName(line) ? json(line) : json();
  const std::string ref = line.substr(kRef.size());
  if (!ref.starts_with("refs/") || ref.find("..") != ref.npos) return nullptr;
  for (const fs::path& directory : {git.own, git.shared}) {
    line = FirstLine(directory / ref).value_or("");
    if (IsObjectName(line)) return line;
  }
  std::istringstream packed(
      ReadSmallFile(git.shared / "packed-refs").value_or(""));
  while (std::getline(packed, line)) {
    if (!line.ends_with(" " + ref)) continue;
    line.resize(line.size() - ref.size() - 1);
    if (IsObjectName(line)) return line;
  }
  return nullptr;
}

// True if the repository's configuration makes `git status` execute programs,
// read other files or fetch.
bool MayExecute(const GitDirectories& git) {
  for (const fs::path& file :
       {git.shared / "config", git.own / "config.worktree"}) {
    std::error_code error;
    if (!fs::exists(file, error)) continue;
    auto text = ReadSmallFile(file);
    if (!text) return true;
    std::ranges::transform(*text, text->begin(), [](unsigned char c) {
      return static_cast<char>(std::tolower(c));
    });
    for (const char* word : {"filter", "fsmonitor", "include", "submodule",
                             "promisor", "partialclone"}) {
      if (text->find(word) != text->npos) return true;
    }
  }
  return false;
}

// Untracked files do not count: the store may be one of them.
json Dirty(const std::string& directory) {
  const auto changes = ChildOutput(
      {"git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c",
       "core.hooksPath=/dev/null", "-C", directory, "status", "--porcelain",
       "--untracked-files=no", "--ignore-submodules=all"},
      kGitLimit);
  return changes ? json(!changes->empty()) : json(nullptr);
}

json Git(const fs::path& config_directory) {
  const std::string directory =
      config_directory.empty() ? "." : config_directory.string();
  const auto git = FindGitDirectories(directory);
  if (!git) return nullptr;
  const json commit = Commit(*git);
  if (commit.is_null()) return nullptr;
  return {{"commit", commit},
          {"dirty", MayExecute(*git) ? json(nullptr) : Dirty(directory)}};
}

json User() {
  const passwd* user = getpwuid(geteuid());
  if (user == nullptr) return std::to_string(geteuid());
  return user->pw_name;
}

json CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return nullptr;
}

json GpusJson(const std::vector<Gpu>& gpus) {
  json array = json::array();
  for (const Gpu& gpu : gpus) {
    array.push_back({{"index", gpu.index},
                     {"name", gpu.name},
                     {"uuid", gpu.uuid},
                     {"memory_bytes", gpu.memory_bytes},
                     {"driver", gpu.driver}});
  }
  return array;
}

json ContextDirectory(const std::filesystem::path& directory) {
  std::error_code error;
  const auto path =
      std::filesystem::absolute(directory.empty() ? "." : directory, error);
  return error ? json(nullptr) : json(path.lexically_normal().string());
}

json WorkingDirectory() {
  std::error_code error;
  const auto path = std::filesystem::current_path(error);
  return error ? json(nullptr) : json(path.string());
}

}  // namespace

json Provenance(const std::vector<std::string>& argv,
                const std::filesystem::path& config_directory,
                const std::vector<Gpu>& gpus) {
  json libraries = json::object();
  for (const auto& [library, version] : LibraryVersions()) {
    libraries[library] = version;
  }
  json words = json::array();
  for (const std::string& word : argv) words.push_back(ToValidUtf8(word));
  utsname system{};
  uname(&system);
  return {{"argv", std::move(words)},
          {"cwd", WorkingDirectory()},
          {"context", ContextDirectory(config_directory)},
          {"git", Git(config_directory)},
          {"host", system.nodename},
          {"user", User()},
          {"kernel", std::string(system.sysname) + " " + system.release},
          {"cpu", {{"model", CpuModel()}, {"count", UsableCpus()}}},
          {"gpus", GpusJson(gpus)},
          {"libraries", std::move(libraries)},
          {"version", kVersion}};
}

namespace {

std::string Dotted(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(patch);
}

}  // namespace

std::string BuildVersion() {
  const std::string id = BuildId();
  constexpr std::size_t kShown = 12;
  return id.empty() ? kVersion
                    : std::string(kVersion) + ", build " + id.substr(0, kShown);
}

std::vector<std::pair<std::string, std::string>> LibraryVersions() {
  std::vector<std::pair<std::string, std::string>> versions = {
      {"dtrain", kVersion},
      {"cli11", CLI11_VERSION},
      {"libarchive", ARCHIVE_VERSION_ONLY_STRING},
      {"libcurl", LIBCURL_VERSION},
      {"libevent", LibeventVersion()},
      {"nlohmann_json",
       Dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
              NLOHMANN_JSON_VERSION_PATCH)},
      {"sqlite", SqliteVersion()},
      {"sqlitecpp", SQLITECPP_VERSION},
      {"yaml_cpp", kYamlCppVersion}};
  if (*kLibTorchVersion != '\0') {
    versions.insert(versions.begin() + 1, {"libtorch", kLibTorchVersion});
  }
  return versions;
}

}  // namespace dtrain

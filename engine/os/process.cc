// Processes as /proc shows them, and what this process may execute or has in
// its environment. Processes come and go while /proc is read: a file that
// cannot be read counts as empty, and a process without a readable `stat` as
// ended.

#include "engine/os/process.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <system_error>

#include <dirent.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/files.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

std::string ProcFile(std::int64_t pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

// Returns why the file cannot be executed, or empty.
std::string Obstacle(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) return "there is no such file";
  if (!fs::is_regular_file(status)) return "is not a regular file";
  if (::access(file.c_str(), X_OK) == 0) return "";
  return "may not be executed; chmod +x it, or name its interpreter first";
}

[[noreturn]] void CannotExecute(const std::string& what) {
  throw Error(ErrorKind::kFailed, EscapeForTerminal(what));
}

}  // namespace

// The program's name, in parentheses, may contain any character; the other
// fields follow the last parenthesis.
std::optional<Process> ParseProcess(std::int64_t pid, std::string_view stat) {
  const std::size_t name_end = stat.rfind(") ");
  if (name_end == std::string_view::npos || stat.size() < name_end + 4) {
    return std::nullopt;
  }
  const char* at = stat.data() + name_end + 2;
  const char* const end = stat.data() + stat.size();
  const char state = *at++;
  std::array<std::int64_t, 21> fields{};  // from field 4 on
  for (std::int64_t& field : fields) {
    while (at != end && *at == ' ') ++at;
    at = std::from_chars(at, end, field).ptr;
  }
  return Process{.pid = pid,
                 .parent = fields[0],
                 .session = fields[2],
                 .start_ticks = fields[18],
                 .zombie = state == 'Z' || state == 'X',
                 .cpu_ticks = fields[10] + fields[11] + fields[12] + fields[13],
                 .resident_pages = fields[20]};
}

std::optional<Process> ReadProcess(std::int64_t pid) {
  return ParseProcess(pid, ReadFile(ProcFile(pid, "stat")).value_or(""));
}

std::vector<Process> ReadProcesses() {
  std::vector<Process> processes;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"),
                                                 ::closedir);
  if (proc == nullptr) return processes;
  while (const dirent* entry = ::readdir(proc.get())) {
    const std::string_view name = entry->d_name;
    std::int64_t pid = 0;
    const auto [end, error] =
        std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    if (const auto process = ReadProcess(pid)) processes.push_back(*process);
  }
  return processes;
}

bool WasStartedWith(std::int64_t pid, std::string_view assignment) {
  const std::string environment =
      ReadFile(ProcFile(pid, "environ")).value_or("");
  std::string_view rest = environment;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\0');
    if (rest.substr(0, end) == assignment) return true;
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return false;
}

std::string BootId() {
  std::string id = ReadFile("/proc/sys/kernel/random/boot_id").value_or("");
  id.erase(std::min(id.find('\n'), id.size()));
  return id;
}

fs::path FindProgram(const std::string& word, const fs::path& directory,
                     const std::string& path) {
  if (word.find('/') != std::string::npos) {
    const fs::path file = (directory / word).lexically_normal();
    const std::string obstacle = Obstacle(file);
    if (!obstacle.empty()) CannotExecute(file.string() + ": " + obstacle);
    return file;
  }
  for (const std::string& part : Split(path, ':')) {
    // An empty part means the working directory, as in a shell.
    const fs::path file = directory / part / word;
    if (Obstacle(file).empty()) return file;
  }
  CannotExecute("there is no program '" + word + "' in PATH (" +
                Truncate(path, 300) +
                "); install it, or name it with a path, as ./" + word);
}

std::optional<std::string> ProcessVariable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string HostName() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::vector<std::string> EnvironmentWith(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::set<std::string> changed;
  std::vector<std::string> result;
  for (const auto& [name, value] : changes) {
    if (changed.insert(name).second) {
      result.push_back(std::string(name).append("=").append(value));
    }
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (changed.count(text.substr(0, text.find('='))) == 0) {
      result.push_back(text);
    }
  }
  return result;
}

ReadVariable VariablesWith(
    std::vector<std::pair<std::string, std::string>> changes) {
  return [changes = std::move(changes)](const char* name) {
    for (const auto& [changed, value] : changes) {
      if (changed == name) return std::optional<std::string>(value);
    }
    return ProcessVariable(name);
  };
}

}  // namespace dtrain

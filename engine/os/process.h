#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain {

/// A process as /proc shows it. `pid` and `start_ticks` together identify it
/// until the machine is restarted.
struct Process {
  std::int64_t pid = 0;
  std::int64_t parent = 0;
  std::int64_t session = 0;
  std::int64_t start_ticks = 0;  // field 22 of /proc/PID/stat
  bool zombie = false;           // dead, but not yet reaped
  std::int64_t cpu_ticks = 0;    // its own, and of children that it has reaped
  std::int64_t resident_pages = 0;
};

/// Parses the text of /proc/PID/stat; nothing if it is not one.
std::optional<Process> ParseProcess(std::int64_t pid, std::string_view stat);

/// Returns all processes, zombies included. One that ends during the call may
/// be missing.
std::vector<Process> ReadProcesses();

/// Returns the process with this number, if it exists.
std::optional<Process> ReadProcess(std::int64_t pid);

/// True if the process, or one that it was forked from, was executed with
/// `assignment`, "NAME=value", in its environment. False if the environment
/// cannot be read.
bool WasStartedWith(std::int64_t pid, std::string_view assignment);

/// Returns the UUID of the machine's current boot; empty if unknown.
std::string BootId();

/// Returns the file that a shell in `directory` would execute for `word`: a
/// word with a slash is a path, relative to `directory` unless absolute; any
/// other is searched for in `path`, directories separated by colons. Throws
/// Error(kFailed) whose text begins with "there is no" or with the file.
std::filesystem::path FindProgram(const std::string& word,
                                  const std::filesystem::path& directory,
                                  const std::string& path);

/// Reads an environment variable. Tests pass a function of their own instead of
/// ProcessVariable.
using ReadVariable = std::function<std::optional<std::string>(const char*)>;

/// Returns a variable of this process's environment.
std::optional<std::string> ProcessVariable(const char* name);

/// Returns the host name, for messages and to tell machines apart.
std::string HostName();

/// Returns the environment of this process with `changes` applied, each entry
/// as NAME=value. Of several changes of one name the first counts.
std::vector<std::string> EnvironmentWith(
    const std::vector<std::pair<std::string, std::string>>& changes);

/// Returns a reader of this process's environment with `changes` applied.
ReadVariable VariablesWith(
    std::vector<std::pair<std::string, std::string>> changes);

}  // namespace dtrain

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
};

/// All processes, zombies included. One that ends during the call may be
/// missing.
std::vector<Process> ReadProcesses();

/// The process with this number, if there is one.
std::optional<Process> ReadProcess(std::int64_t pid);

/// Whether the process was executed (or forked from one that was) with
/// `assignment`, "NAME=value", in its environment. False if that may not be
/// read.
bool WasStartedWith(std::int64_t pid, std::string_view assignment);

/// Identifies the machine's current boot (a UUID); empty if it is not known.
std::string BootId();

/// The file that a shell in `directory` would execute for `word`: a word with a
/// slash is a path, relative to `directory` unless absolute; any other is
/// searched for in `path`, directories separated by colons. Throws
/// Error(kFailed) whose text begins with "there is no" or with the file.
std::filesystem::path FindProgram(const std::string& word,
                                  const std::filesystem::path& directory,
                                  const std::string& path);

/// Reads an environment variable. Tests pass a function of their own instead of
/// ProcessVariable.
using ReadVariable = std::function<std::optional<std::string>(const char*)>;

/// The environment of this process.
std::optional<std::string> ProcessVariable(const char* name);

/// The name of this machine, for messages and to tell machines apart.
std::string HostName();

/// Returns the environment of this process with `changes` applied, each entry
/// as NAME=value. Of several changes of one name the first counts.
std::vector<std::string> EnvironmentWith(
    const std::vector<std::pair<std::string, std::string>>& changes);

/// Returns a reader of that environment.
ReadVariable VariablesWith(
    std::vector<std::pair<std::string, std::string>> changes);

}  // namespace dtrain

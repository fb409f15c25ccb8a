#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <spawn.h>
#include <sys/types.h>

#include "engine/base/clock.h"
#include "engine/os/unique_fd.h"

namespace dtrain {

/// Starts programs by posix_spawn(3). The settings are applied in the child in
/// the order of the calls. The child inherits every descriptor that is not
/// close-on-exec. Use once; one thread.
class Spawn {
 public:
  Spawn();
  ~Spawn();
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  /// Opens `path` as the child's descriptor `fd`; flags and mode as for
  /// open(2).
  Spawn& Open(int fd, const std::filesystem::path& path, int flags,
              mode_t mode = 0);
  /// Duplicates the child's descriptor `from` to `to`.
  Spawn& Duplicate(int from, int to);
  /// Closes the child's descriptors from `first` on that this process has now.
  Spawn& CloseFrom(int first);
  Spawn& ChangeDirectory(const std::filesystem::path& directory);
  /// Gives every signal its default action, except those in `kept`, which stay
  /// ignored if they are, and blocks none.
  Spawn& ResetSignals(std::initializer_list<int> kept = {});
  Spawn& NewSession();
  /// Replaces the environment, which is that of this process otherwise. Entries
  /// are NAME=value.
  Spawn& Environment(std::vector<std::string> environment);

  /// Executes `file` with the arguments `words`, the first of which is the
  /// program's name. Returns the child's number, or -1 with errno set.
  pid_t Run(const std::filesystem::path& file, std::vector<std::string> words);
  /// Searches for `words[0]` in PATH, otherwise as Run.
  pid_t RunFromPath(std::vector<std::string> words);

 private:
  using SpawnFunction = decltype(::posix_spawn);

  pid_t Start(SpawnFunction* spawn, const char* file,
              std::vector<std::string> words);

  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  short flags_ = 0;
  std::optional<std::vector<std::string>> environment_;
};

/// A descriptor that becomes readable when the child `pid` ends; holds none,
/// with errno set, on failure. It is a pidfd, or a pipe on a kernel that has
/// none.
UniqueFd OpenExitFd(pid_t pid);

/// Closes the descriptors of this process from `first` to `last`.
void CloseRange(unsigned first, unsigned last);

/// End of a process. Unknown by default: something else has reaped it.
struct ExitStatus {
  int code = -1;   // -1 if a signal ended it
  int signal = 0;  // 0 if it exited
};

/// Returns "exited with code 3", "killed by signal 9 (SIGKILL)" or "ended in an
/// unknown way".
std::string FormatExit(const ExitStatus& status);

/// Waits at most `limit` for the child `pid` to end; does not reap it.
bool HasEnded(pid_t pid, Duration limit);

/// Waits for the child `pid` and reaps it.
ExitStatus AwaitExit(pid_t pid);

struct Pipe {
  UniqueFd reading;
  UniqueFd writing;
};

/// Makes a pipe whose ends are close-on-exec. Throws Error(kFailed).
Pipe MakePipe();

/// Reads `fd` to its end, or up to `max_bytes`. Returns nothing if `deadline`,
/// a time of Clock::monotonic, passes first or if `fd` cannot be read.
std::optional<std::string> ReadUntil(
    int fd, Duration deadline,
    std::size_t max_bytes = std::numeric_limits<std::size_t>::max());

/// Result of a program that ran to its end.
struct CapturedRun {
  enum class End { kExited, kNotStarted, kTooLate };

  End end = End::kNotStarted;
  ExitStatus status;   // if it exited
  int error = 0;       // errno, if it was not started
  std::string output;  // standard output, at most 16 MiB of it
  std::string errors;  // standard error, at most 64 KiB of it

  bool succeeded() const { return end == End::kExited && status.code == 0; }
};

/// Searches for `words[0]` in PATH and runs it without a shell, in a session of
/// its own, with `input` on standard input and this environment, NAME=value
/// each. Its session is killed after `limit`. Throws Error(kFailed) if pipes
/// cannot be made.
CapturedRun RunCaptured(const std::vector<std::string>& words,
                        std::vector<std::string> environment, Duration limit,
                        std::string_view input = {});

/// Result of a function that ran in a child of its own.
struct ChildAnswer {
  // kUnknown: something else has reaped the child.
  enum class End { kAnswered, kCrashed, kTooLate, kUnknown };

  End end = End::kCrashed;
  std::string text;  // empty unless kAnswered
};

/// Calls `function` in a forked child and returns its result, so that a crash
/// or a hang in a library does no harm here. The child has no descriptors but
/// /dev/null and the pipe for its answer, so it holds none of this process's
/// locks. It is killed after `limit`. An exception of `function` is a crash.
/// Throws Error(kFailed) if it cannot fork. REQUIRES: what `function` calls
/// works in a child of a process with threads.
ChildAnswer CallInChild(std::string (*function)(), Duration limit);

/// A function call in a forked child, for callers that do other work meanwhile.
/// Kills the child when destroyed. One thread.
class ChildCall {
 public:
  /// Throws Error(kFailed) if it cannot fork. REQUIRES: as for CallInChild.
  explicit ChildCall(const std::function<std::string()>& function);
  ~ChildCall();
  ChildCall(const ChildCall&) = delete;
  ChildCall& operator=(const ChildCall&) = delete;

  /// Returns the child's answer once it has one. REQUIRES: none was returned.
  std::optional<ChildAnswer> Poll();
  /// Waits at most `limit` for the answer; kills the child if it passes.
  /// REQUIRES: none was returned.
  ChildAnswer Await(Duration limit);
  pid_t pid() const { return pid_; }

 private:
  UniqueFd answer_;
  pid_t pid_ = -1;  // until it is reaped
};

/// Forks a child that calls `function` in a session of its own, with the
/// writing end of a pipe, and exits with its result, without running the
/// destructors of static objects. An exception of `function` ends the child.
/// Returns the reading end; holds none, with errno set, if it cannot fork. The
/// child is not reaped. REQUIRES: this process has one thread.
UniqueFd ForkDetached(const std::function<int(UniqueFd pipe)>& function);

}  // namespace dtrain

#include "cli/child_output.h"

#include <array>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/os/unique_fd.h"

extern char** environ;

namespace dtrain {
namespace {

constexpr std::size_t kLongest = std::size_t{1} << 20;

// The process, its stdout going to `out`; −1 if it could not be started.
pid_t Spawn(const std::vector<std::string>& argv, int out) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                   O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
                                   O_WRONLY, 0);
  std::vector<char*> words;
  for (const std::string& word : argv) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, words.front(), &actions, nullptr,
                                 words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : -1;
}

// All that comes from `fd` until its end; none if the time is up first.
std::optional<std::string> ReadUntil(int fd, Duration deadline,
                                     const Clock& clock) {
  std::string text;
  while (text.size() < kLongest) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - clock.monotonic());
    if (left.count() <= 0) return std::nullopt;
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, static_cast<int>(left.count())) <= 0) continue;
    std::array<char, 4096> buffer;
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return std::make_optional(std::move(text));
}

}  // namespace

std::optional<std::string> ChildOutput(const std::vector<std::string>& argv,
                                       Duration limit) {
  const Clock clock = Clock::System();
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  const pid_t pid = Spawn(argv, out.get());
  out.reset();
  if (pid < 0) return std::nullopt;
  const auto text = ReadUntil(in.get(), clock.monotonic() + limit, clock);
  if (!text) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const bool success = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return success ? text : std::nullopt;
}

}  // namespace dtrain

#include "engine/plugin/commands.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace dtrain {
namespace {

constexpr std::size_t kLongestOutput = std::size_t{1} << 20;

// Its pid, or −1 with `error` said.
pid_t Spawn(const ProgramRun& run, std::string& error) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                   O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, run.output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC | O_APPEND,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& word : run.argv) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  pid_t pid = -1;
  const int failure = posix_spawnp(&pid, words.front(), &actions, nullptr,
                                   words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure == 0) return pid;
  error = std::strerror(failure);
  return -1;
}

std::string Printed(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(kLongestOutput, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

void Await(pid_t pid, ProgramEnd& end) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

std::vector<ProgramEnd> RunPrograms(const std::vector<ProgramRun>& runs,
                                    std::size_t at_once) {
  std::vector<ProgramEnd> ends(runs.size());
  std::vector<pid_t> pids(runs.size(), -1);
  std::size_t awaited = 0;
  const auto await_next = [&] {
    if (pids[awaited] > 0) Await(pids[awaited], ends[awaited]);
    ++awaited;
  };
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i - awaited >= std::max<std::size_t>(at_once, 1)) await_next();
    pids[i] = Spawn(runs[i], ends[i].not_started);
    if (pids[i] < 0) ends[i].exit_code = -1;
  }
  while (awaited < runs.size()) await_next();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ends[i].output = Printed(runs[i].output);
  }
  return ends;
}

}  // namespace dtrain

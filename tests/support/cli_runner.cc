#include "tests/support/cli_runner.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/base/text.h"
#include "engine/os/spawn.h"
#include "tests/support/json_schema.h"

namespace dtrain {
namespace {

using std::chrono::steady_clock;

constexpr auto kLimit = std::chrono::minutes(8);

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Reads both outputs to their ends and sends the signal of the call.
class Conversation {
 public:
  Conversation(pid_t pid, const CliCall& call) : pid_(pid), call_(call) {}

  CliResult Read(int out, int err) {
    CliResult result;
    std::array<pollfd, 2> ends = {pollfd{.fd = out, .events = POLLIN},
                                  pollfd{.fd = err, .events = POLLIN}};
    while (ends[0].fd >= 0 || ends[1].fd >= 0) {
      poll(ends.data(), ends.size(), /*timeout=*/10);
      ReadSome(ends[0], result.out);
      ReadSome(ends[1], result.err);
      SignalIfDue(result.err);
      if (Elapsed() > kLimit) kill(pid_, SIGKILL);
    }
    if (!signalled_ && !call_.signal_when.empty() &&
        call_.signal_after.count() == 0) {
      ADD_FAILURE() << "stderr never contained '" << call_.signal_when
                    << "', so no signal was sent:\n"
                    << result.err;
    }
    return result;
  }

 private:
  steady_clock::duration Elapsed() const {
    return steady_clock::now() - start_;
  }

  static void ReadSome(pollfd& end, std::string& text) {
    if (end.fd < 0 || end.revents == 0) return;
    std::array<char, 65536> buffer;
    const ssize_t got = read(end.fd, buffer.data(), buffer.size());
    if (got > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(got));
    } else {
      end.fd = -1;
    }
  }

  void SignalIfDue(const std::string& err) {
    const bool said = !call_.signal_when.empty() &&
                      err.find(call_.signal_when) != std::string::npos;
    const bool due =
        call_.signal_after.count() > 0 && Elapsed() >= call_.signal_after;
    if (signalled_ || (!said && !due)) return;
    signalled_ = true;
    kill(pid_, call_.signal);
  }

  pid_t pid_;
  const CliCall& call_;
  steady_clock::time_point start_ = steady_clock::now();
  bool signalled_ = false;
};

// Resolves the program in the PATH of the call. execvp would search this
// process's PATH and could start another program of that name.
std::string FindProgram(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) return name;
  std::istringstream directories(path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    const std::string program = directory + "/" + name;
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return name;
}

int Reap(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void ExpectDocumentedJson(const CliResult& result) {
  for (const std::string& finding :
       FindUndocumentedJson(result.argv, result.out)) {
    ADD_FAILURE() << Join(result.argv, " ") << ": " << finding;
  }
}

}  // namespace

nlohmann::json CliResult::Json() const {
  // The output of `dtrain` itself has already been checked.
  if (argv.empty() || argv.front() != DTRAIN_BINARY)
    ExpectDocumentedJson(*this);
  return nlohmann::json::parse(out);
}

CliResult CliRunner::Run(const std::vector<std::string>& arguments,
                         const CliCall& call) const {
  std::vector<std::string> argv = {DTRAIN_BINARY};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunProgram(argv, call);
}

CliResult CliRunner::RunProgram(const std::vector<std::string>& argv,
                                const CliCall& call) const {
  const std::string home = directory().string();
  const auto bin = std::filesystem::path(DTRAIN_BINARY).parent_path();
  const std::string path = bin.string() + ":/usr/local/bin:/usr/bin:/bin";
  const auto named = call.environment.find("PATH");
  std::vector<std::string> environment = {
      "PATH=" + (named == call.environment.end() ? path : named->second),
      "HOME=" + home,
      "TMPDIR=/tmp",
      "XDG_CACHE_HOME=" + home + "/cache",
      "DTRAIN_STORE=" + store().string(),
      "DTRAIN_RUNTIME_DIR=" + home + "/slots"};
  // Options of sanitizers are those of the test.
  for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || call.environment.contains(name)) continue;
    environment.push_back(std::string(name) + "=" + value);
  }
  for (const auto& [name, value] : call.environment) {
    environment.push_back(name + "=" + value);
  }
  Pipe out = MakePipe();
  Pipe err = MakePipe();
  const auto input = Write(".input", call.input);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, home.c_str());
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, input.c_str(),
                                   O_RDONLY, 0);
  if (call.stdout_file.empty()) {
    posix_spawn_file_actions_adddup2(&actions, out.writing.get(),
                                     STDOUT_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO,
                                     call.stdout_file.c_str(), O_WRONLY, 0);
  }
  posix_spawn_file_actions_adddup2(&actions, err.writing.get(), STDERR_FILENO);
  std::vector<std::string> words = argv;
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, FindProgram(argv.front(), path).c_str(),
                                 &actions, nullptr, Pointers(words).data(),
                                 Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + words.front());
  out.writing.reset();
  err.writing.reset();
  CliResult result =
      Conversation(pid, call).Read(out.reading.get(), err.reading.get());
  result.code = Reap(pid);
  result.argv = argv;
  if (argv.front() == DTRAIN_BINARY) ExpectDocumentedJson(result);
  return result;
}

std::filesystem::path CliRunner::Write(const std::string& name,
                                       const std::string& text) const {
  const auto path = directory() / name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::vector<std::string> CommandsInHelp(const std::string& help) {
  static const std::regex kName("^  ([a-z][a-z-]*)  ");
  std::vector<std::string> commands;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    std::smatch name;
    if (std::regex_search(line, name, kName)) commands.push_back(name[1]);
  }
  return commands;
}

TrialMetrics ReadMetrics(const CliRunner& dtrain, const std::string& trial) {
  TrialMetrics metrics;
  const nlohmann::json printed =
      dtrain.Run({"metrics", trial, "--json"}).Json();
  for (const nlohmann::json& row : printed.at("metrics")) {
    metrics[{row.at("kind"), row.at("batches"), row.at("name")}] =
        row.at("value").get<double>();
  }
  return metrics;
}

}  // namespace dtrain

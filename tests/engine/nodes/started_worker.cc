#include "tests/engine/nodes/started_worker.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

int Run(WorkerOptions options, const std::string& output) {
  std::ofstream file(output);
  options.notice = [&file](const std::string& line) {
    file << line << std::endl;
  };
  try {
    return Work(std::move(options));
  } catch (const Error& error) {
    file << error.what() << std::endl;
    return error.kind() == ErrorKind::kUsage ? 2 : 1;
  }
}

}  // namespace

StartedWorker::StartedWorker(WorkerOptions options, std::string output,
                             std::string gate)
    : output_(std::move(output)), pid_(::fork()) {
  if (pid_ != 0) return;
  while (!gate.empty() && !std::filesystem::exists(gate)) {
    ::poll(nullptr, 0, /*milliseconds=*/10);
  }
  ::_exit(Run(std::move(options), output_));
}

StartedWorker::~StartedWorker() {
  if (pid_ < 0) return;
  Signal(SIGKILL);
  Wait();
}

void StartedWorker::Signal(int signal) const {
  ASSERT_GT(pid_, 0) << "the process has ended";  // −1 would be every process
  ::kill(pid_, signal);
}

int StartedWorker::Wait() {
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string StartedWorker::Output() const {
  std::ifstream file(output_);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace dtrain

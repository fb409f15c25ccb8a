// Workers in the user's own allocation: the script of JobRequest as a child
// process, without sbatch. It has a session of its own, so that Ctrl-C at the
// terminal reaches the runner only, which ends the workers in order. The
// destructor waits for them, asks srun to end the step, and kills it only after
// Slurm itself would have.

#include "engine/slurm/worker_step.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/files.h"
#include "engine/os/system_error.h"
#include "engine/slurm/job_request.h"

namespace dtrain {
namespace {

// Workers that were told to exit end the step by themselves.
constexpr Duration kOwnEndPatience = std::chrono::seconds(10);
// Slurm itself ends a step that has been asked to after KillWait, which is 30 s
// by default.
constexpr Duration kKillPatience = std::chrono::seconds(40);
constexpr std::size_t kShownLines = 5;
constexpr std::streamoff kShownBytes = 4096;

}  // namespace

std::string LastLines(const std::filesystem::path& file) {
  std::vector<std::string> lines;
  for (const std::string& line : Split(ReadTail(file, kShownBytes), '\n')) {
    const std::string_view trimmed = Trim(line);
    if (!trimmed.empty()) lines.push_back(EscapeForTerminal(trimmed));
  }
  if (lines.size() > kShownLines) {
    lines.erase(lines.begin(), lines.end() - kShownLines);
  }
  return Join(lines, "; ");
}

WorkerStep::WorkerStep(const JobRequest& request)
    : output_(request.OutputFile("step")) {
  pid_ = Spawn()
             .Open(STDIN_FILENO, "/dev/null", O_RDONLY)
             .Open(STDOUT_FILENO, output_, O_WRONLY | O_CREAT | O_TRUNC, 0600)
             .Duplicate(STDOUT_FILENO, STDERR_FILENO)
             .CloseFrom(STDERR_FILENO + 1)
             .ResetSignals()
             .NewSession()
             .RunFromPath({"bash", request.script.string()});
  if (pid_ < 0) {
    throw Error(
        ErrorKind::kResources,
        request.script.string() + ": cannot be started: " + ErrnoText());
  }
}

WorkerStep::~WorkerStep() {
  if (pid_ < 0) return;
  if (!HasEnded(pid_, kOwnEndPatience)) {
    ::kill(pid_, SIGTERM);  // srun passes it on
    if (!HasEnded(pid_, kKillPatience)) ::kill(-pid_, SIGKILL);
  }
  AwaitExit(pid_);
}

std::optional<std::string> WorkerStep::Failure() {
  if (pid_ < 0 || !HasEnded(pid_, Duration::zero())) return std::nullopt;
  const ExitStatus status = AwaitExit(std::exchange(pid_, -1));
  const std::string lines = LastLines(output_);
  return "srun has ended (" + FormatExit(status) +
         "), and with it the workers" + (lines.empty() ? "" : ": " + lines) +
         "; see " + EscapeForTerminal(output_.string());
}

}  // namespace dtrain

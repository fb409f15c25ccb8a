#include "engine/run/trials_lock.h"

#include <cerrno>
#include <csignal>
#include <fstream>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr Duration kPause = milliseconds(10);
// From SIGKILL to the end of a process, where the machine is busy.
constexpr Duration kDying = std::chrono::seconds(5);

bool TryLock(int file, const std::filesystem::path& path) {
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno == EINTR) continue;
    throw Error(ErrorKind::kStore, path.string() + ": cannot lock: " +
                                       std::generic_category().message(errno));
  }
  return true;
}

bool AwaitLock(int file, const std::filesystem::path& path, Duration limit) {
  const auto end = steady_clock::now() + limit;
  while (!TryLock(file, path)) {
    if (steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

std::vector<Process> Survivors(const std::vector<TrialRow>& trials,
                               const std::string& boot_id) {
  std::vector<Process> survivors;
  for (const TrialRow& trial : trials) {
    const auto process = LivingProcess(trial, boot_id);
    if (process) survivors.push_back(*process);
  }
  return survivors;
}

}  // namespace

std::optional<Process> LivingProcess(const TrialRow& trial,
                                     const std::string& boot_id) {
  if (trial.pid == 0 || trial.boot_id != boot_id) return std::nullopt;
  auto process = ReadProcess(trial.pid);
  const bool is_it =
      process && !process->zombie && process->start_ticks == trial.pid_start;
  return is_it ? process : std::nullopt;
}

TrialsLock TrialsLock::Take(const std::filesystem::path& path,
                            const std::vector<TrialRow>& trials,
                            const std::string& boot_id, Duration patience) {
  UniqueFd file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) {
    throw Error(ErrorKind::kStore, path.string() + ": cannot open: " +
                                       std::generic_category().message(errno) +
                                       "; check the store's permissions");
  }
  if (AwaitLock(file.get(), path, patience)) return TrialsLock(std::move(file));
  for (const Process& process : Survivors(trials, boot_id)) {
    // A trial leads a session of its own.
    ::kill(static_cast<pid_t>(-process.pid), SIGKILL);
    ::kill(static_cast<pid_t>(process.pid), SIGKILL);
  }
  if (AwaitLock(file.get(), path, kDying)) return TrialsLock(std::move(file));
  std::vector<std::string> pids;
  for (const Process& process : Survivors(trials, boot_id)) {
    pids.push_back(std::to_string(process.pid));
  }
  throw Error(
      ErrorKind::kStore,
      path.string() +
          ": processes of the experiment's last run still "
          "live" +
          (pids.empty() ? std::string() : " (" + Join(pids, ", ") + ")") +
          "; end them (" +
          NamedCommand("fuser " + QuotePathForShell(path.string())) +
          " names them), then go on with `dtrain resume`");
}

}  // namespace dtrain

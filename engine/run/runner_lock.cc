// The two locks of a runner.
//
// The runner lock is an OFD record lock: unlike a flock it can be probed
// (F_OFD_GETLK) without being taken, so that `dtrain list` never makes a
// starting runner fail. It belongs to the runner alone. The trials lock is a
// flock, and its descriptor is inherited by every process of a trial: it is
// free only when the last of them has ended, whatever happened to the runner.
//
// A killed process holds its locks until the kernel has freed its memory. So
// the runner lock is tried again while its recorded holder is exiting, and the
// trials lock while trials may save a last checkpoint. Trials that still live
// after that are killed by their recorded pids; a pid alone proves nothing, so
// boot id and start time must match, too. All waits block the calling thread.

#include "engine/run/runner_lock.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <sstream>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/files.h"
#include "engine/os/process.h"
#include "engine/os/system_error.h"

namespace dtrain {
namespace {

using nlohmann::json;

// Time in which the kernel frees the memory of any process.
constexpr std::chrono::seconds kDyingHolder{2};

// Reads the holder from the file. A holder that has just taken the lock may not
// have written it yet.
RunnerIdentity ReadIdentity(int file) {
  std::array<char, 1024> text{};
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  const json object =
      json::parse(text.data(), text.data() + (size > 0 ? size : 0), nullptr,
                  /*allow_exceptions=*/false);
  if (!object.is_object()) return {};
  const json pid = object.value("pid", json());
  const json host = object.value("host", json());
  return {.pid = pid.is_number_integer() ? pid.get<std::int64_t>() : 0,
          .host = host.is_string() ? host.get<std::string>() : ""};
}

// False for a process of this machine that has ended or is exiting: after
// `kill -9` its locks stay until the kernel has freed its memory.
bool IsAlive(const RunnerIdentity& holder) {
  if (holder.pid == 0) return false;
  // The pid of another machine cannot be looked up here.
  if (holder.host != HostName()) return true;
  const auto text = ReadFile("/proc/" + std::to_string(holder.pid) + "/stat");
  if (!text) return false;
  // After the name, which may contain any character: state, five numbers,
  // flags.
  std::istringstream fields(text->substr(text->rfind(')') + 1));
  char state = 'X';
  std::int64_t skipped = 0;
  std::uint64_t flags = 0;
  fields >> state;
  for (int i = 0; i < 5; ++i) fields >> skipped;
  fields >> flags;
  constexpr std::uint64_t kExiting = 4;  // PF_EXITING of linux/sched.h
  return fields && state != 'Z' && state != 'X' && (flags & kExiting) == 0;
}

// Takes the lock unless a living process holds it. A holder without a name may
// be alive: it has just started, or the disk is full.
bool LockOnceFree(FileLock& file) {
  const auto end = std::chrono::steady_clock::now() + kDyingHolder;
  while (!file.TryLockRecord()) {
    if (errno != EAGAIN) return false;
    const bool waits = !IsAlive(ReadIdentity(file.fd())) &&
                       std::chrono::steady_clock::now() < end;
    if (!waits) {
      errno = EAGAIN;
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// Writes all of `text`, which may take several calls.
bool WriteFromStart(int file, std::string_view text) {
  off_t at = 0;
  while (!text.empty()) {
    const ssize_t written = ::pwrite(file, text.data(), text.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
    at += written;
  }
  return true;
}

void WriteIdentity(int file, const std::string& path) {
  const json identity = {{"pid", ::getpid()}, {"host", HostName()}};
  const std::string text =
      identity.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  const bool written = ::ftruncate(file, 0) == 0 && WriteFromStart(file, text);
  // The text is for messages only, so a full disk must not prevent a resume.
  if (!written && errno != ENOSPC && errno != EDQUOT) {
    throw Error(ErrorKind::kStore, path + ": cannot write: " + ErrnoText() +
                                       "; check the disk and its permissions");
  }
}

[[noreturn]] void ThrowHeld(const std::string& path,
                            const RunnerIdentity& holder) {
  const std::string who =
      holder.pid == 0
          ? "another process"
          : "process " + std::to_string(holder.pid) + " on " + holder.host;
  throw Error(ErrorKind::kStore, path +
                                     ": the experiment already has a runner, " +
                                     who + "; wait for it or pause it");
}

}  // namespace

namespace {

FileLock OpenLockFile(const std::filesystem::path& path) {
  FileLock file = FileLock::Open(path);
  if (file) return file;
  throw Error(ErrorKind::kStore, path.string() +
                                     ": cannot open: " + ErrnoText() +
                                     "; check the store's permissions");
}

}  // namespace

RunnerLock RunnerLock::Acquire(const std::filesystem::path& path) {
  FileLock file = OpenLockFile(path);
  if (!LockOnceFree(file)) {
    if (errno == EAGAIN) ThrowHeld(path.string(), ReadIdentity(file.fd()));
    throw Error(ErrorKind::kStore,
                path.string() + ": cannot lock: " + ErrnoText());
  }
  WriteIdentity(file.fd(), path.string());
  return RunnerLock(std::move(file));
}

std::optional<RunnerIdentity> RunnerLock::Holder(
    const std::filesystem::path& path) {
  const FileLock file(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
  if (!file && errno == EACCES) return RunnerIdentity();
  if (!file || !file.IsRecordLocked()) return std::nullopt;
  return ReadIdentity(file.fd());
}

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr Duration kPause = milliseconds(10);
// Maximum time from SIGKILL to the end of a process on a busy machine.
constexpr Duration kDying = std::chrono::seconds(5);

bool TryLock(FileLock& file, const std::filesystem::path& path) {
  if (file.TryLock()) return true;
  if (errno == EWOULDBLOCK) return false;
  throw Error(ErrorKind::kStore,
              path.string() + ": cannot lock: " + ErrnoText());
}

bool AwaitLock(FileLock& file, const std::filesystem::path& path,
               Duration limit) {
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

TrialsLock TrialsLock::Acquire(const std::filesystem::path& path,
                               const std::vector<TrialRow>& trials,
                               const std::string& boot_id, Duration patience) {
  FileLock file = OpenLockFile(path);
  if (AwaitLock(file, path, patience)) return TrialsLock(std::move(file));
  for (const Process& process : Survivors(trials, boot_id)) {
    // A trial is a session leader.
    ::kill(static_cast<pid_t>(-process.pid), SIGKILL);
    ::kill(static_cast<pid_t>(process.pid), SIGKILL);
  }
  if (AwaitLock(file, path, kDying)) return TrialsLock(std::move(file));
  std::vector<std::string> pids;
  for (const Process& process : Survivors(trials, boot_id)) {
    pids.push_back(std::to_string(process.pid));
  }
  throw Error(
      ErrorKind::kStore,
      path.string() +
          ": processes of the experiment's last run are "
          "still running" +
          (pids.empty() ? std::string() : " (" + Join(pids, ", ") + ")") +
          "; end them (" +
          NamedCommand("fuser " + QuotePathForShell(path.string())) +
          " lists them), then run `dtrain resume`");
}

}  // namespace dtrain

#include "engine/nodes/worker.h"

#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/nodes/runner_link.h"
#include "engine/os/file_lock.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr Duration kProbePause = std::chrono::milliseconds(300);
constexpr std::size_t kMaxProbe = 1000;

std::unique_ptr<RunnerLink> Join(const WorkerOptions& options) {
  if (options.notice) {
    options.notice("connecting to the runner at " +
                   EscapeForTerminal(ToString(options.runner)));
  }
  return JoinRunner(
      {.runner = options.runner,
       .secret = options.secret,
       .purpose = kWorkersPurpose,
       .claim = EncodeReport(WorkerHello{.version = options.version,
                                         .host = options.host,
                                         .name = options.name,
                                         .job = options.job,
                                         .until = options.limits.until}),
       .address = "--connect",
       .start_there = "start the experiment there with "
                      "resources.listen, or --listen",
       .same_secret = "name the experiment that runs there "
                      "(--experiment) and its store (--store), "
                      "or its key (DTRAIN_SECRET_FILE)",
       .patience = options.patience,
       .notice = options.notice});
}

std::string ContentOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxProbe, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// Returns why this machine does not share the runner's files, or empty.
std::string WhyNotShared(const WorkerOptions& options, const WorkerTask& task) {
  const Duration end = Clock::System().monotonic() + options.file_patience;
  for (const auto& [path, content] : task.probes) {
    while (ContentOf(path) != content) {
      if (Clock::System().monotonic() >= end) {
        return EscapeForTerminal(path) +
               ": is not on this machine as on the runner's; keep the store "
               "and checkpoint_storage on a file system that all machines "
               "mount at the same path";
      }
      std::this_thread::sleep_for(kProbePause);
    }
    const fs::path directory = fs::path(path).parent_path();
    if (::access(directory.c_str(), W_OK) != 0) {
      return EscapeForTerminal(directory.string()) +
             ": cannot be written from this machine; mount it writable";
    }
  }
  return "";
}

// Waits for the task that follows the acceptance.
std::optional<WorkerTask> AwaitTask(RunnerLink& link) {
  NodeOrder order = link.Await();
  if (std::holds_alternative<ShutdownNode>(order)) return std::nullopt;
  if (auto* task = std::get_if<WorkerTask>(&order)) return std::move(*task);
  throw Error(ErrorKind::kFailed,
              link.peer() + " sent an order before its experiment");
}

LocalLauncherOptions LauncherOf(const WorkerOptions& options,
                                const WorkerTask& task, SlotPlan plan) {
  const auto& variables =
      plan.gpus.empty() ? task.cpu_environment : task.gpu_environment;
  return {.experiment = task.experiment,
          .slots = std::move(plan),
          .layout = StoreLayout(options.roots.front()),
          .host = options.find_host(task.command),
          .environment = {variables.begin(), variables.end()}};
}

// Checks that this machine can run trials of the task. Otherwise the runner
// is told why, too.
LocalLauncherOptions Prepare(RunnerLink& link, const WorkerOptions& options,
                             const WorkerTask& task) try {
  const std::string why = WhyNotShared(options, task);
  if (!why.empty()) throw Error(ErrorKind::kUsage, why);
  return LauncherOf(options, task, options.plan(task));
} catch (const Error& error) {
  try {
    link.Send(WorkerUnable{error.what()});
  } catch (const Error&) {
    // The reason is shown here.
  }
  throw;
}

// Calls a function when its scope ends.
struct AtEnd {
  const std::function<void()>& call;
  ~AtEnd() {
    if (call) call();
  }
};

// Locks a file of this run as long as this process lives. A runner that resumes
// the experiment waits for that, since two processes must not write into the
// directory of one trial.
FileLock LockRun(const WorkerOptions& options, const WorkerTask& task) {
  const fs::path probe =
      StoreLayout(options.roots.front()).WorkerProbe(task.experiment);
  FileLock lock(UniqueFd(::open(probe.c_str(), O_RDONLY | O_CLOEXEC)));
  // Not every file system has locks.
  if (lock) static_cast<void>(lock.TryLock(FileLock::Mode::kShared));
  return lock;
}

}  // namespace

int Work(WorkerOptions options) {
  const std::unique_ptr<RunnerLink> link = Join(options);
  const AtEnd at_end{options.at_end};
  const std::optional<WorkerTask> task = AwaitTask(*link);
  if (!task) return 0;
  const FileLock lock = LockRun(options, *task);
  LocalLauncherOptions launcher = Prepare(*link, options, *task);
  if (!task->storage.empty()) options.roots.emplace_back(task->storage);
  if (options.notice) {
    options.notice("working for experiment " +
                   std::to_string(task->experiment) + " of " + link->peer() +
                   " on " + launcher.slots.ToString());
  }
  link->Joined();
  link->Send(WorkerReady{launcher.slots.slots(), !launcher.slots.gpus.empty()});
  return RemoteTrials(*link, {.roots = std::move(options.roots),
                              .launcher = std::move(launcher),
                              .drain = options.limits,
                              .notice = std::move(options.notice)})
      .Run();
}

}  // namespace dtrain

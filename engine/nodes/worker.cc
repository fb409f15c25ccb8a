// A worker from its connection to its first trial.
//
// It joins the runner, waits for the task and checks that trials of it can run
// here: the same store, the runner's files as the runner sees them, the same
// compiled model, the program. A file is the same, and not a copy on another
// disk, if it has the line that the runner has just added (a probe); a network
// file system may show it late, so the check is repeated for a while. A worker
// that cannot run trials tells the runner why and ends. RemoteTrials does the
// rest.

#include "engine/nodes/worker.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/context/context_links.h"
#include "engine/nodes/runner_link.h"
#include "engine/os/file_lock.h"
#include "engine/os/files.h"
#include "engine/os/process.h"
#include "engine/os/sha256.h"
#include "engine/process/system_monitor.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr Duration kProbePause = std::chrono::milliseconds(300);
// Of a file to which the runner adds a line for each worker.
constexpr std::streamoff kMaxProbe = 100'000;

// `name` begins messages.
std::unique_ptr<RunnerLink> Join(const WorkerOptions& options,
                                 const std::string& name) {
  JoinOptions join{
      .runner = options.runner,
      .secret = options.secret,
      .claim = EncodeReport(WorkerHello{.version = options.version,
                                        .host = options.host,
                                        .name = options.name,
                                        .job = options.job,
                                        .until = options.limits.until,
                                        .claim = options.claim}),
      .name = name,
      .address = "--connect",
      .start_there =
          "start the experiment there with "
          "resources.listen, or --listen",
      .same_secret =
          "name the experiment that runs there "
          "(--experiment) and its store (--store), "
          "or its key (DTRAIN_SECRET_FILE)",
      .patience = options.patience,
      .secret_patience = options.secret_patience,
      .notice = options.notice};
  if (options.claim) {
    join.address = "MASTER_ADDR, MASTER_PORT";
    join.start_there = "start the same command with RANK=0 there";
    join.same_secret =
        "give all processes the same store (--store), or set "
        "DTRAIN_SECRET_FILE for all to a file of 32 random bytes that only you "
        "can read";
  }
  const std::string runner = EscapeForTerminal(ToString(options.runner));
  if (options.notice) {
    options.notice(name +
                   (options.claim ? "waiting for the runner, RANK=0, at "
                                  : "connecting to the runner at ") +
                   runner);
  }
  std::unique_ptr<RunnerLink> link = JoinRunner(join);
  if (options.claim) {
    link->SetLossAdvice(
        "resume the experiment there with RANK=0, and start this command "
        "again");
  }
  if (options.notice) options.notice(name + "joined the runner at " + runner);
  return link;
}

// Returns why this process could not use the runner's paths, or empty.
std::string PathMismatch(const WorkerOptions& options, const WorkerTask& task) {
  const fs::path& store = options.roots.front();
  std::error_code no_store;
  std::error_code no_other;
  const fs::path here = fs::weakly_canonical(store, no_store);
  const fs::path there = fs::weakly_canonical(task.store, no_other);
  if (no_store || no_other || here != there) {
    return "the worker's store is " + EscapeForTerminal(store.string()) +
           ", the runner's is " + EscapeForTerminal(task.store) +
           "; start the worker with --store " +
           EscapeForTerminal(QuoteForShell(task.store));
  }
  if (!task.library.empty() && !IsBelowOne(task.library, options.roots)) {
    return EscapeForTerminal(task.library) +
           ": the compiled model is not in the worker's cache; start both "
           "with the same XDG_CACHE_HOME, on a file system that all machines "
           "mount at the same path";
  }
  return "";
}

// Returns which of the runner's files are not seen on this machine, or empty.
std::string UnseenFiles(const WorkerTask& task) {
  for (const auto& [path, content] : task.probes) {
    if (content.empty() ||
        ReadTail(path, kMaxProbe).find(content) == std::string::npos) {
      return EscapeForTerminal(path) +
             ": is not on the worker's machine as on the runner's, or is a "
             "copy; keep the store and checkpoint_storage on a file system "
             "that all machines mount at the same path";
    }
    const fs::path directory = fs::path(path).parent_path();
    if (::access(directory.c_str(), W_OK) != 0) {
      return EscapeForTerminal(directory.string()) +
             ": cannot be written by the worker; mount it writable there";
    }
  }
  if (!task.library.empty() &&
      Sha256OfFile(task.library) != task.library_sha256) {
    return EscapeForTerminal(task.library) +
           ": the compiled model is not on the worker's machine as on the "
           "runner's; set XDG_CACHE_HOME to a directory on a file system that "
           "all machines mount at the same path";
  }
  std::error_code error;
  if (!task.context.empty() && !fs::is_directory(task.context, error)) {
    return EscapeForTerminal(task.context) +
           ": the directory of the program is not on the worker's machine; "
           "keep it on a file system that all machines mount at the same path";
  }
  if (task.context.empty()) return "";
  try {
    const auto link = FindMissingLink(task.context);
    if (!link) return "";
    return EscapeForTerminal(link->target.string()) +
           ": is not a directory on the worker's machine, but '" +
           EscapeForTerminal(link->path) +
           "' of each trial is a link to it; make it, or mount it there";
  } catch (const Error& damage) {
    return EscapeForTerminal(damage.what());
  }
}

// Checks that this machine can run trials of the task. Otherwise the runner
// is told why, too.
LocalLauncherOptions Prepare(RunnerLink& link, const WorkerOptions& options,
                             const WorkerTask& task) try {
  std::string why = PathMismatch(options, task);
  const Clock clock = Clock::System();
  const Duration end = clock.monotonic() + options.file_patience;
  if (why.empty()) {
    while (!(why = UnseenFiles(task)).empty() && clock.monotonic() < end) {
      std::this_thread::sleep_for(kProbePause);
    }
  }
  if (!why.empty()) throw Error(ErrorKind::kUsage, why);
  SlotPlan plan = options.plan(task);
  // As on the runner's machine, since results depend on the number of threads.
  if (plan.gpus.empty()) plan.threads = task.threads;
  const auto& variables =
      plan.gpus.empty() ? task.cpu_environment : task.gpu_environment;
  LocalLauncherOptions launcher{
      .experiment = task.experiment,
      .slots = std::move(plan),
      .layout = StoreLayout(options.roots.front()),
      .host = options.find_host(task.command),
      .environment = {variables.begin(), variables.end()}};
  if (task.system) launcher.system_period = SystemPeriod();
  if (task.words.empty()) return launcher;
  const auto found = std::ranges::find(
      variables, "PATH", [](const auto& variable) { return variable.first; });
  const std::string path = found == variables.end()
                               ? ProcessVariable("PATH").value_or("")
                               : found->second;
  try {
    FindProgramOfTrial(task.words.front(), task.context, path);
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, "entrypoint: " + std::string(error.what()));
  }
  return launcher;
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

}  // namespace

int Work(WorkerOptions options) {
  const std::string name =
      options.claim ? "RANK=" + std::to_string(options.claim->rank) + ": " : "";
  const std::unique_ptr<RunnerLink> link = Join(options, name);
  const AtEnd at_end{options.at_end};
  const NodeOrder order = link->Await();
  if (std::holds_alternative<ShutdownNode>(order)) return 0;
  const auto* const task = std::get_if<WorkerTask>(&order);
  if (task == nullptr) {
    throw Error(ErrorKind::kFailed,
                link->peer() + " sent an order before its experiment");
  }
  // A file of this run is locked as long as this process lives. A runner that
  // resumes the experiment waits for that, since two processes must not write
  // into the directory of one trial.
  const fs::path probe =
      StoreLayout(options.roots.front()).WorkerProbe(task->experiment);
  FileLock lock(UniqueFd(::open(probe.c_str(), O_RDONLY | O_CLOEXEC)));
  // Not every file system has locks.
  if (lock) static_cast<void>(lock.TryLock(FileLock::Mode::kShared));
  LocalLauncherOptions launcher = Prepare(*link, options, *task);
  if (!task->storage.empty()) options.roots.emplace_back(task->storage);
  if (options.notice) {
    options.notice(name + "working for experiment " +
                   std::to_string(task->experiment) + " of " + link->peer() +
                   " on " + launcher.slots.ToString());
  }
  WorkerReady ready{.slots = launcher.slots.slots(),
                    .gpus = !launcher.slots.gpus.empty()};
  if (options.find_differences) {
    ready.differences = options.find_differences(*task, ready.gpus);
  }
  link->Send(ready);
  return RemoteTrials(*link, {.name = name,
                              .roots = std::move(options.roots),
                              .launcher = std::move(launcher),
                              .answer_patience = options.answer_patience,
                              .drain = options.limits,
                              .notice = std::move(options.notice)})
      .Run();
}

}  // namespace dtrain

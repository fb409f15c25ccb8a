#include "cli/run_experiment.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/own_model.h"
#include "cli/run_report.h"
#include "cli/store_access.h"
#include "engine/base/error.h"
#include "engine/context/stored_context.h"
#include "engine/os/line_reader.h"
#include "engine/os/unique_fd.h"
#include "engine/process/local_launcher.h"
#include "engine/run/runner.h"

// `-d` forks before the process has a thread, a lock or an open database, none
// of which survives a fork. The child starts the experiment and sends its id,
// or the error that prevented it, as one line of JSON through a pipe; only then
// does the parent return to the shell.

namespace dtrain {
namespace {

using nlohmann::json;

// Called by a background process once its experiment is under way: lets the
// caller go on, and sends its own output to `log` from then on.
using Departure = std::function<void(std::int64_t experiment,
                                     const std::filesystem::path& log)>;

// Detaches the three standard streams from the terminal.
void TurnOutputTo(const std::filesystem::path& log) {
  std::cout.flush();
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd file(
      open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!null || !file) {
    throw Error(ErrorKind::kStore,
                log.string() + ": cannot write: " + std::strerror(errno));
  }
  dup2(null.get(), STDIN_FILENO);
  dup2(file.get(), STDOUT_FILENO);
  dup2(file.get(), STDERR_FILENO);
}

void Send(UniqueFd& pipe, const json& message) {
  const std::string line =
      message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  [[maybe_unused]] const bool heard = WriteAll(pipe.get(), line);
  pipe.reset();
}

[[noreturn]] void BackgroundMain(const std::function<int(Departure)>& body,
                                 UniqueFd pipe) {
  setsid();
  int code = EXIT_FAILURE;
  json failure;
  try {
    code = body([&](std::int64_t id, const std::filesystem::path& log) {
      TurnOutputTo(log);
      Send(pipe, {{"experiment", id}});
    });
  } catch (const Error& error) {
    failure = {{"kind", static_cast<int>(error.kind())},
               {"error", error.what()}};
  } catch (const std::bad_alloc&) {
    failure = {{"kind", static_cast<int>(ErrorKind::kResources)},
               {"error", kOutOfMemory}};
    code = kExitResources;
  } catch (const std::exception& error) {
    failure = {{"kind", static_cast<int>(ErrorKind::kFailed)},
               {"error", error.what()}};
  }
  if (!failure.is_null()) {
    if (pipe) {
      Send(pipe, failure);
    } else {
      std::cerr << "dtrain: error: "
                << failure["error"].get_ref<const std::string&>() << '\n';
    }
  }
  std::cout.flush();
  std::_Exit(code);
}

// Runs `body` in a process of its own session and returns the id of its
// experiment. Throws the Error that `body` threw before it had one.
std::int64_t RunInBackground(const std::function<int(Departure)>& body) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorKind::kFailed,
                std::string("-d: cannot create a pipe: ") + strerror(errno));
  }
  UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  std::cout.flush();
  const pid_t pid = fork();
  if (pid < 0) {
    throw Error(ErrorKind::kFailed, std::string("-d: cannot fork: ") +
                                        strerror(errno) +
                                        "; free some processes or run without "
                                        "-d");
  }
  if (pid == 0) {
    in.reset();
    BackgroundMain(body, std::move(out));
  }
  out.reset();
  LineReader reader(in.get());
  while (reader.Fill()) {
  }
  const auto line = reader.Next();
  if (!line) {
    throw Error(ErrorKind::kFailed,
                "-d: the runner died before its experiment started; run "
                "without -d to see why");
  }
  const json message = json::parse(*line);
  if (message.contains("experiment")) return message["experiment"];
  throw Error(static_cast<ErrorKind>(message["kind"].get<int>()),
              message["error"]);
}

int RunHere(const StoreLayout& layout, const Recording& record,
            const ExperimentConfig& config, RunRequest& request,
            const GlobalOptions& globals, const Departure& departure) {
  // Whoever reads our output may go away; the experiment goes on.
  std::signal(SIGPIPE, SIG_IGN);
  // A limit on file sizes is an error of a write, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  Store store = OpenStoreForWriting(layout, globals);
  const std::int64_t id = record(store);
  request.experiment = id;
  std::function<void()> on_begin;
  if (departure) {
    on_begin = [&] { departure(id, layout.RunnerLog(id)); };
  }
  RequireOwnFiles(layout, id);
  // As it is kept, whatever has become of the directory that it came from.
  const auto own = CompileOwnModel(config, layout.Context(id), globals);
  const auto reporter = MakeReporter(layout, request, globals, on_begin);
  const RunResult result =
      RunExperiment(store, id, config,
                    {.timeout = request.timeout,
                     .disk_wait = request.disk_wait,
                     .library = own ? own->file.string() : ""},
                    *reporter, request.detach, request.make_launcher);
  return ReportResult(store, result, config, request, globals);
}

}  // namespace

RunResult RunExperiment(Store& store, std::int64_t id,
                        const ExperimentConfig& config,
                        const RunOptions& options, Reporter& reporter,
                        bool detached, const MakeLauncher& make_launcher) {
  const Clock clock = Clock::System();
  ExperimentRunner runner(store, id, config, clock);
  const bool on_gpus = !runner.slots().gpus.empty();
  LocalLauncherOptions local{
      .experiment = id,
      .slots = runner.slots(),
      .layout = store.layout(),
      .host = IsCommand(config) ? FindCommandHost() : FindTrialHost(),
      .environment = config.environment.For(on_gpus),
      .inherited = runner.trials_lock(),
      .clock = clock,
      .ignore_hangup = detached};
  const std::unique_ptr<Launcher> launcher =
      make_launcher ? make_launcher(std::move(local))
                    : std::make_unique<LocalLauncher>(std::move(local));
  return runner.Run(*launcher, options, reporter);
}

int RunRecorded(const StoreLayout& layout, const Recording& record,
                const ExperimentConfig& config, RunRequest& request,
                const GlobalOptions& globals) {
  if (!request.detach) {
    return RunHere(layout, record, config, request, globals, nullptr);
  }
  const std::int64_t id = RunInBackground([&](const Departure& departure) {
    return RunHere(layout, record, config, request, globals, departure);
  });
  if (request.json) {
    PrintJson({{"experiment", id}, {"store", layout.root().string()}});
  } else {
    std::cout << id << '\n';
  }
  const std::string text = std::to_string(id);
  Say(globals, "experiment " + text + " runs in the background; see " +
                   CommandFor(globals, "logs " + text + " -f") + " or " +
                   CommandFor(globals, "wait " + text));
  return kExitDone;
}

}  // namespace dtrain

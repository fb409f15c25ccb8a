#include "cli/run_experiment.h"

#include <csignal>
#include <iostream>
#include <memory>

#include "cli/background.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/own_model.h"
#include "cli/run_report.h"
#include "cli/store_access.h"
#include "engine/context/stored_context.h"
#include "engine/run/runner.h"

namespace dtrain {
namespace {

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
                     .detached = request.detach,
                     .library = own ? own->file.string() : "",
                     .make_launcher = request.make_launcher},
                    *reporter, Clock::System());
  return ReportResult(store, result, config, request, globals);
}

}  // namespace

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

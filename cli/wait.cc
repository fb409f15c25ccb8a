// `dtrain wait`: polls experiments until none of them runs.
//
// Polling the database is enough: a runner records every end. The only state
// without a record is that of a killed runner, which shows as INTERRUPTED. On a
// terminal the experiments are shown meanwhile, as `create` shows its own.

#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include <poll.h>
#include <unistd.h>

#include "cli/ci_report.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/run.h"
#include "engine/app/followed_run.h"
#include "engine/app/requirements.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/signals.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"
#include "engine/report/live_display.h"

namespace dtrain {
namespace {

struct WaitOptions : JsonOption {
  std::vector<std::string> experiments;
  DemandFlags demands;
  std::string timeout;
  CiFlags ci;
};

// The experiments on a terminal, until a signal or the end of the wait removes
// them.
class WaitDisplay {
 public:
  WaitDisplay(const Store& store, const std::vector<std::int64_t>& ids,
              std::function<TerminalMode()> mode)
      : runs_(store, ids), lines_(std::cerr, std::move(mode)) {}

  void Draw(Duration now) {
    runs_.Poll(now);
    lines_.Draw(StackedLines(runs_.Frames(), lines_.mode()));
  }
  /// Sleeps, and returns the signal that ended the sleep, or 0.
  int Sleep(Duration time) {
    pollfd end{.fd = signals_.fd(), .events = POLLIN};
    poll(&end, 1, static_cast<int>(time / std::chrono::milliseconds(1)));
    return signals_.Read();
  }

 private:
  SignalWatch signals_;
  FollowedRuns runs_;
  RedrawnLines lines_;
};

// Polls the experiments until all have ended or need a command to resume.
class Waiting {
 public:
  Waiting(const Store& store, const std::vector<std::int64_t>& ids)
      : store_(store), checks_(ids.size()) {
    for (const std::int64_t id : ids) {
      rows_.push_back(FindExperiment(store, id));
    }
  }

  /// Returns an exit code that ends the wait before all have settled; else 0.
  int Run(std::optional<Duration> timeout, WaitDisplay* display) {
    const Clock clock = Clock::System();
    const Duration start = clock.monotonic();
    while (!AllSettled(clock.monotonic())) {
      const Duration now = clock.monotonic();
      if (timeout && now - start >= *timeout) return kExitTimeout;
      if (display != nullptr) {
        display->Draw(now);
        const int signal = display->Sleep(kPeriod);
        if (signal != 0) return 128 + signal;
      } else {
        std::this_thread::sleep_for(kPeriod);
      }
      for (ExperimentRow& row : rows_) row = FindExperiment(store_, row.id);
    }
    return kExitDone;
  }

  const std::vector<ExperimentRow>& rows() const { return rows_; }

 private:
  static constexpr Duration kPeriod = std::chrono::milliseconds(200);

  bool AllSettled(Duration now) {
    bool all = true;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      all = checks_[i].IsSettled(rows_[i], now) && all;
    }
    return all;
  }

  const Store& store_;
  std::vector<ExperimentRow> rows_;
  std::vector<SettledCheck> checks_;
};

nlohmann::json WaitJson(const Store& store, const ExperimentRow& row,
                        const std::vector<Check>& checks) {
  nlohmann::json json = ExperimentJson(row, row.seconds);
  AddLength(FindCountedUnit(store, row.id), json);
  json["requirements"] = ChecksJson(checks);
  return json;
}

int Judge(const CheckedExperiment& experiment, const Demands& demands,
          const Store& store, const GlobalOptions& globals,
          nlohmann::json& array) {
  const auto& [row, checks] = experiment;
  const bool met = ReportUnmet(checks, row.id, globals);
  array.push_back(WaitJson(store, row, checks));
  ExplainState(row, globals);
  const bool few_failed =
      !IsFinal(row.state) || ReportFailedTrials(demands, store, row, globals);
  return WorstExitCode(few_failed ? ToExitCode(row.state) : kExitFailed,
                       met ? kExitDone : kExitRequirement);
}

int WaitAndJudge(const WaitOptions& options, const GlobalOptions& globals) {
  const Demands demands = CheckDemandFlags(options.demands);
  std::optional<Duration> timeout;
  if (!options.timeout.empty()) {
    timeout = ParseDuration(options.timeout, "--timeout");
  }
  const Store store = OpenStore(globals);
  const auto ids = ResolveExperiments(store, options.experiments);
  Waiting waiting(store, ids);
  const auto mode = [color = globals.color] {
    return GetTerminalMode(STDERR_FILENO, color);
  };
  std::unique_ptr<WaitDisplay> display;
  if (mode().redraw && !globals.quiet) {
    display = std::make_unique<WaitDisplay>(store, ids, mode);
  }
  const int ended = waiting.Run(timeout, display.get());
  display.reset();
  if (ended != kExitDone && ended != kExitTimeout) return ended;
  if (ended == kExitTimeout) {
    const Error error(
        ErrorKind::kFailed,
        "not finished after " + FormatDuration(*timeout) +
            "; wait longer, or check with: " + CommandFor(globals, "list"));
    PrintError(globals, error.what());
    if (options.json) {
      nlohmann::json array = nlohmann::json::array();
      for (const std::int64_t id : ids) {
        array.push_back(WaitJson(store, FindExperiment(store, id), {}));
      }
      PrintJson({{"experiments", std::move(array)}});
    }
    WriteCiRefusal(options.ci, "wait", {}, error);
    return kExitTimeout;
  }
  int code = kExitDone;
  nlohmann::json array = nlohmann::json::array();
  std::vector<CheckedExperiment> judged;
  for (const ExperimentRow& row : waiting.rows()) {
    judged.push_back(
        {.row = row, .checks = CheckRequirements(demands, store, row)});
    code = WorstExitCode(code,
                         Judge(judged.back(), demands, store, globals, array));
  }
  if (options.json) PrintJson({{"experiments", std::move(array)}});
  WriteCiReport(options.ci, store, judged);
  return code;
}

int Wait(const WaitOptions& options, const GlobalOptions& globals) {
  CheckCiFlags(options.ci);
  try {
    return WaitAndJudge(options, globals);
  } catch (const Error& error) {
    WriteCiRefusal(options.ci, "wait", {}, error);
    throw;
  }
}

}  // namespace

CommandRun SetUpWait(CLI::App& app) {
  auto options = std::make_shared<WaitOptions>();
  AddOption(app, "EXP", options->experiments, "Experiment IDs (3)").Required();
  AddDemandFlags(app, options->demands);
  AddOption(app, "--timeout", options->timeout,
            "Wait at most TIME, then exit with 124: 90 (seconds), 30m, 1.5h")
      .TypeName("TIME");
  AddJsonOption(app, *options);
  AddCiFlags(app, options->ci);
  SetHelp(app,
          {.exits = {{kExitDone, "all experiments completed"},
                     {kExitFailed, "an experiment failed or was canceled"},
                     {kExitUsage},
                     {kExitNotFound},
                     {kExitRequirement},
                     {kExitStore},
                     {kExitResumable},
                     {kExitTimeout}},
           .examples = {
               {"Wait for two experiments", "dtrain wait 3 4"},
               {"Wait at most an hour and require a result",
                "dtrain wait 3 --timeout 1h --require 'accuracy>=0.95'"}}});
  return RunWith(Wait, options);
}

}  // namespace dtrain

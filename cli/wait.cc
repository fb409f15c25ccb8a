// `dtrain wait`: polls experiments until none of them runs.
//
// Polling the database is enough: a runner records every end. The only state
// without a record is that of a killed runner, which shows as INTERRUPTED.

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <memory>
#include <optional>

#include "cli/ci_report.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/requirements.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

// Number of checks before an experiment counts as INTERRUPTED: a new runner
// locks its experiment only after recording it.
constexpr int kInterruptedLooks = 5;

struct WaitOptions : JsonOption {
  std::vector<std::string> experiments;
  std::vector<std::string> requirements;
  std::string timeout;
  CiFlags ci;
};

// Polls the experiments until all have ended or need a command to resume.
class Waiting {
 public:
  Waiting(const Store& store, const std::vector<std::int64_t>& ids)
      : store_(store) {
    for (const std::int64_t id : ids) {
      rows_.push_back(FindExperiment(store, id));
    }
  }

  /// Returns false on timeout.
  bool Run(std::optional<Duration> timeout) {
    const Clock clock = Clock::System();
    const Duration start = clock.monotonic();
    while (!AllSettled()) {
      if (timeout && clock.monotonic() - start >= *timeout) return false;
      const timespec nap{.tv_sec = 0, .tv_nsec = 200'000'000};
      nanosleep(&nap, nullptr);
      for (ExperimentRow& row : rows_) row = FindExperiment(store_, row.id);
    }
    return true;
  }

  const std::vector<ExperimentRow>& rows() const { return rows_; }

 private:
  bool AllSettled() {
    bool all = true;
    for (const ExperimentRow& row : rows_) {
      int& looks = interrupted_[row.id];
      looks = row.state == State::kInterrupted ? looks + 1 : 0;
      const bool live =
          row.state == State::kRunning || row.state == State::kPending ||
          (row.state == State::kInterrupted && looks < kInterruptedLooks);
      all = all && !live;
    }
    return all;
  }

  const Store& store_;
  std::vector<ExperimentRow> rows_;
  std::map<std::int64_t, int> interrupted_;
};

// Returns the more important exit code: a failure, then an unmet requirement,
// then a resumable experiment.
int Worst(int a, int b) {
  constexpr std::array kOrder = {kExitDone, kExitResumable, kExitRequirement,
                                 kExitFailed};
  return std::ranges::find(kOrder, a) < std::ranges::find(kOrder, b) ? b : a;
}

int Judge(const JudgedExperiment& experiment, const GlobalOptions& globals,
          nlohmann::json& array) {
  const auto& [row, checks] = experiment;
  const bool met = ReportUnmet(checks, row.id, globals);
  nlohmann::json json = ExperimentJson(row, row.seconds);
  json["requirements"] = ChecksJson(checks);
  array.push_back(std::move(json));
  const std::string id = std::to_string(row.id);
  if (row.state == State::kInterrupted || row.state == State::kPaused) {
    SayError(globals,
             "experiment " + id + " is " + std::string(StateName(row.state)) +
                 "; resume with: " + CommandFor(globals, "resume " + id));
  } else if (row.state == State::kError || row.state == State::kCanceled) {
    SayError(globals, "experiment " + id + " is " +
                          std::string(StateName(row.state)) +
                          (row.error.empty() ? "" : ": " + row.error));
  }
  return Worst(ExitCodeOf(row.state), met ? kExitDone : kExitRequirement);
}

int WaitAndJudge(const WaitOptions& options, const GlobalOptions& globals) {
  const auto requirements = ParseRequirements(options.requirements);
  std::optional<Duration> timeout;
  if (!options.timeout.empty()) {
    timeout = ParseDuration(options.timeout, "--timeout");
  }
  std::vector<std::int64_t> ids;
  for (const std::string& text : options.experiments) {
    ids.push_back(ParseExperimentId(text));
  }
  const Store store = OpenStore(globals);
  Waiting waiting(store, ids);
  if (!waiting.Run(timeout)) {
    const Error error(
        ErrorKind::kFailed,
        "not finished after " + FormatDuration(*timeout) +
            "; wait longer, or check with: " + CommandFor(globals, "list"));
    SayError(globals, error.what());
    WriteCiRefusal(options.ci, "wait", {}, error);
    return kExitTimeout;
  }
  int code = kExitDone;
  nlohmann::json array = nlohmann::json::array();
  std::vector<JudgedExperiment> judged;
  for (const ExperimentRow& row : waiting.rows()) {
    judged.push_back(
        {.row = row, .checks = CheckRequirements(requirements, store, row)});
    code = Worst(code, Judge(judged.back(), globals, array));
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
  AddOption(app, "--require", options->requirements,
            "Exit with 4 unless EXPR is true, e.g. 'accuracy>=0.9 and "
            "loss<0.5' (repeatable)")
      .TypeName("EXPR")
      .OneEach();
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

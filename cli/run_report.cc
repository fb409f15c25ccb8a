#include "cli/run_report.h"

#include <filesystem>
#include <iostream>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <unistd.h>

#include "cli/ci_report.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/requirements.h"
#include "cli/store_access.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/report/json_lines_reporter.h"
#include "engine/report/json_view.h"
#include "engine/report/live_display.h"
#include "engine/report/log_merger.h"
#include "engine/report/plain_reporter.h"
#include "engine/report/reporter_group.h"
#include "engine/report/summary.h"

namespace dtrain {
namespace {

class BeginReporter : public Reporter {
 public:
  explicit BeginReporter(std::function<void()> on_begin)
      : on_begin_(std::move(on_begin)) {}

  void Begin(const RunInfo&) override { on_begin_(); }

 private:
  std::function<void()> on_begin_;
};

// Passes events on to the display, and between them what trials print.
class LogFollower : public ReporterGroup {
 public:
  enum class Scope { kNone, kSingle, kAll };  // kSingle: of the only trial

  LogFollower(std::unique_ptr<Reporter> display, StoreLayout layout,
              Scope scope, std::string program)
      : layout_(std::move(layout)),
        scope_(scope),
        program_(std::move(program)) {
    Add(std::move(display));
  }

  void Begin(const RunInfo& info) override {
    follows_ =
        scope_ == Scope::kAll || (scope_ == Scope::kSingle && !IsSearch(info));
    begin_ = Clock::System().now();
    ReporterGroup::Begin(info);
  }
  void OnTrialStarted(const TrialRow& trial, std::int64_t from) override {
    ReporterGroup::OnTrialStarted(trial, from);
    if (!follows_) return;
    // What its last process printed is shown before what this one does.
    while (behind_.contains(trial.id) && !Show(kMaxLines)) continue;
    Follow(trial);
  }
  void OnTrialEnded(const TrialRow& trial,
                    const std::vector<std::string>& last_lines) override {
    if (!follows_) return ReporterGroup::OnTrialEnded(trial, last_lines);
    merger_.End(trial.id);
    if (!Show(kMaxLines)) behind_.insert(trial.id);
    ReporterGroup::OnTrialEnded(trial, {});
  }
  void OnStatus(const RunStatus& status) override {
    Show(kMaxLines);
    ReporterGroup::OnStatus(status);
  }
  void End(const RunResult& result) override {
    if (!Show(kMaxLastLines)) {
      const std::string id = std::to_string(result.experiment);
      OnNotice(LogLevel::kInfo, "not all output is shown; the rest is in: " +
                                    program_ + " logs " + id);
    }
    ReporterGroup::End(result);
  }

 private:
  // A trial that prints without end must not keep the runner from its work.
  static constexpr int kMaxLines = 1000;
  static constexpr int kMaxLastLines = 10'000;
  // Of a longer log only the end is looked through for what is new.
  static constexpr std::uintmax_t kLongLog = 1 << 20;

  void Follow(const TrialRow& trial) {
    const std::filesystem::path path = layout_.TrialLog(trial.id);
    const auto shown = shown_.find(trial.id);
    if (shown != shown_.end()) {
      since_[trial.id] = shown->second + Timestamp(1);
    } else if (trial.started && *trial.started < begin_) {
      since_[trial.id] = begin_;  // an earlier run showed the rest
    }
    LogSource source{.trial = trial.id,
                     .path = path,
                     .begins = since_[trial.id],
                     .grows = true};
    std::error_code ignored;
    const std::uintmax_t size = std::filesystem::file_size(path, ignored);
    if (!ignored && size > kLongLog) source.tail = kMaxLines;
    merger_.Add(std::move(source));
  }

  // Shows up to `most` lines; false if there are more.
  bool Show(int most) try {
    if (!follows_) return true;
    merger_.Refresh();
    for (int lines = 0; lines < most;) {
      const auto merged = merger_.Next();
      if (!merged) {
        behind_.clear();
        return true;
      }
      if (merged->record.time < since_[merged->trial]) continue;
      shown_[merged->trial] = merged->record.time;
      OnOutput(merged->trial, merged->record);
      ++lines;
    }
    return false;
  } catch (const Error& error) {
    // The experiment does not depend on who watches it.
    follows_ = false;
    OnNotice(LogLevel::kWarning, error.what());
    return true;
  }

  StoreLayout layout_;
  Scope scope_;
  std::string program_;  // as ProgramFor
  bool follows_ = false;
  Timestamp begin_{0};
  LogMerger merger_;
  std::set<TrialId> behind_;            // ended, and not all is shown
  std::map<TrialId, Timestamp> since_;  // lines before this are not shown
  std::map<TrialId, Timestamp> shown_;  // time of the last line
};

Verbosity VerbosityOf(const GlobalOptions& globals) {
  if (globals.quiet) return Verbosity::kQuiet;
  return globals.verbose ? Verbosity::kVerbose : Verbosity::kNormal;
}

SummaryContext ContextOf(const Store& store, const ExperimentRow& row,
                         const ExperimentConfig& config,
                         const GlobalOptions& globals) {
  SummaryContext context{
      .metric = row.metric,
      .hyperparameters = config.hyperparameters,
      .command = ProgramFor(globals),
      .max_length = std::to_string(config.searcher.max_length) + " " +
                    std::string(UnitName(config.length_unit))};
  context.counted = CountedUnit(store, row.id, config);
  for (const TrialRow& trial : ListTrials(store, row)) {
    ++context.trials[trial.state];
    if (trial.reason == kKilledReason) ++context.killed;
    if (trial.id.number == row.best_trial) context.best_state = trial.state;
    if (trial.reason.starts_with(kEndedEarly) && context.early++ == 0) {
      context.why_early = "trial " + ToString(trial.id) + " " + trial.reason;
    }
  }
  return context;
}

// Both are JSON documents that end a run.
nlohmann::json FinalDocument(const Store& store, const RunResult& result,
                             const ExperimentRow& row,
                             const SummaryContext& context,
                             const std::vector<Check>& checks) {
  nlohmann::json document = ResultJson(result, row.metric);
  document["name"] = row.name;
  document["trials"] = row.trials;
  document["trials_by_state"] = nlohmann::json::object();
  for (const auto& [state, count] : context.trials) {
    document["trials_by_state"][std::string(StateName(state))] = count;
  }
  document["requirements"] = ChecksJson(checks);
  document["store"] = store.layout().root().string();
  return document;
}

void ExplainResult(const RunResult& result, const GlobalOptions& globals) {
  const std::string id = std::to_string(result.experiment);
  if (result.state == State::kError || result.state == State::kCanceled) {
    SayError(globals, "experiment " + id + " is " +
                          std::string(StateName(result.state)) +
                          (result.error.empty() ? "" : ": " + result.error) +
                          "; see " + CommandFor(globals, "logs " + id));
  } else if (!result.error.empty()) {
    SayError(globals,
             "experiment " + id + " is paused: " + result.error +
                 "; resume with: " + CommandFor(globals, "resume " + id));
  } else if (!IsFinal(result.state)) {
    std::cerr << "dtrain: experiment " << id << " is paused"
              << (result.timed_out ? " at its time limit" : "")
              << ", nothing is lost; resume with: "
              << CommandFor(globals, "resume " + id) << '\n';
  }
}

}  // namespace

std::unique_ptr<Reporter> MakeReporter(const StoreLayout& layout,
                                       const RunRequest& request,
                                       const GlobalOptions& globals,
                                       std::function<void()> on_begin) {
  auto group = std::make_unique<ReporterGroup>();
  if (on_begin) {
    group->Add(std::make_unique<BeginReporter>(std::move(on_begin)));
  }
  if (request.jsonl) {
    group->Add(std::make_unique<JsonLinesReporter>(std::cout, Clock::System(),
                                                   StdoutIsTerminal()));
  }
  const auto mode = [color = globals.color] {
    return ModeOf(STDERR_FILENO, color);
  };
  const Verbosity verbosity = VerbosityOf(globals);
  std::unique_ptr<Reporter> display;
  if (mode().redraw && !request.detach && !globals.quiet) {
    display = std::make_unique<LiveDisplay>(std::cerr, mode, verbosity,
                                            Clock::System());
  } else {
    display = std::make_unique<PlainReporter>(std::cerr, mode(), verbosity);
  }
  const LogFollower::Scope scope =
      request.detach || globals.quiet ? LogFollower::Scope::kNone
      : request.follow                ? LogFollower::Scope::kAll
                                      : LogFollower::Scope::kSingle;
  group->Add(std::make_unique<LogFollower>(std::move(display), layout, scope,
                                           ProgramFor(globals)));
  return group;
}

int ReportResult(const Store& store, const RunResult& result,
                 const ExperimentConfig& config, RunRequest& request,
                 const GlobalOptions& globals) {
  const ExperimentRow row = FindExperiment(store, result.experiment);
  // What was paused is not judged: it can still get there.
  const auto checks = IsFinal(result.state)
                          ? CheckRequirements(request.requirements, store, row)
                          : std::vector<Check>{};
  const auto conclusion =
      request.conclude ? request.conclude(store, result) : std::nullopt;
  const SummaryContext context = ContextOf(store, row, config, globals);
  request.is_reported = true;
  if (request.json || request.jsonl) {
    nlohmann::json document =
        FinalDocument(store, result, row, context, checks);
    if (conclusion) document[conclusion->key] = conclusion->document;
    if (request.json) {
      PrintJson(document);
    } else {
      JsonLinesReporter(std::cout, Clock::System(), StdoutIsTerminal())
          .Write("end", std::move(document));
    }
  } else {
    std::cout << SummaryText(result, context);
    if (conclusion) std::cout << EscapeForTerminal(conclusion->text) << '\n';
  }
  ExplainResult(result, globals);
  const bool met = ReportUnmet(checks, result.experiment, globals) &&
                   (!conclusion || conclusion->met);
  const JudgedExperiment judged{.row = row, .checks = checks};
  WriteCiReport(request.ci, store, std::span(&judged, 1));
  const int code = ExitCodeOf(result);
  return code == kExitDone && !met ? kExitRequirement : code;
}

}  // namespace dtrain

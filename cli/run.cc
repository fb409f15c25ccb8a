// What create, resume and their kin share: the options of a run, its reporter
// and display, the text that explains its result, and the exit code.
//
// RunRecorded has the experiment recorded, or found, by its caller's function,
// and runs it until its end. Only then are the requirements of --require and
// --max-failed checked, since they are about recorded results. What the display
// shows of a run comes from a Reporter; ExplainResult prints to stderr what is
// to be done next, and ReportResult the document of --json.
//
// `-d` forks before the process has a thread, a lock or an open database, none
// of which survives a fork. The child starts the experiment and sends its id,
// or the error that prevented it, as one line of JSON through a pipe; only then
// does the parent return to the shell.

#include "cli/run.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <span>
#include <string>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/ci_report.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/config_file.h"
#include "engine/app/entrypoint_check.h"
#include "engine/app/record_experiment.h"
#include "engine/app/recorded_trial.h"
#include "engine/app/requirements.h"
#include "engine/app/run_experiment.h"
#include "engine/app/script_check.h"
#include "engine/app/secrets.h"
#include "engine/app/stores.h"
#include "engine/app/system_use.h"
#include "engine/app/trial_files.h"
#include "engine/base/error.h"
#include "engine/base/length.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/config/read_config.h"
#include "engine/context/stored_context.h"
#include "engine/os/line_reader.h"
#include "engine/os/spawn.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"
#include "engine/plugin/model_library.h"
#include "engine/report/json_lines_reporter.h"
#include "engine/report/json_view.h"
#include "engine/report/live_display.h"
#include "engine/report/logs.h"
#include "engine/report/plain_reporter.h"
#include "engine/report/summary.h"
#include "engine/report/system_view.h"
#include "engine/report/terminal.h"
#include "engine/run/points.h"
#include "engine/run/reported_units.h"
#include "engine/run/reporter.h"
#include "engine/run/runner.h"

namespace dtrain {
namespace {

// Limit for waiting for disk space if no terminal shows the wait.
constexpr Duration kDiskWait = std::chrono::minutes(10);

// Returns the recorded findings, and the error if they have none.
Diagnostics CollectDiagnostics(const RunRequest& request,
                               const std::string& name, const Error& error) {
  Diagnostics found = request.diagnostics;
  const bool told = std::ranges::any_of(found, [](const Diagnostic& one) {
    return one.severity == Severity::kError ||
           one.severity == Severity::kNotYet;
  });
  if (!told) found.push_back({.file = name, .message = error.what()});
  return found;
}

void ReportError(const RunRequest& request, const std::string& name,
                 const Error& error) {
  const bool refused = !request.experiment;
  if (request.json || request.jsonl) {
    nlohmann::json document = {
        {"experiment",
         refused ? nlohmann::json() : nlohmann::json(*request.experiment)},
        {"error", error.what()},
        {"exit_code", ToExitCode(error.kind())},
        {"diagnostics",
         DiagnosticsJson(CollectDiagnostics(request, name, error))}};
    if (request.json) {
      PrintJson(document);
    } else {
      JsonLinesReporter(std::cout, Clock::System(), StdoutIsTerminal())
          .Write(refused ? "refused" : "error", std::move(document));
    }
  }
  const std::string what =
      refused ? name : "experiment " + std::to_string(*request.experiment);
  WriteCiRefusal(request.ci, what, request.diagnostics, error);
}

}  // namespace

void AddDemandFlags(CLI::App& app, DemandFlags& flags,
                    const CliOption* detach) {
  const CliOption options[] = {
      AddOption(
          app, "--require", flags.require,
          "Exit with 4 unless EXPR is true for the best trial that did not "
          "fail, e.g. 'accuracy>=0.9 and loss<0.5' (repeatable)")
          .TypeName("EXPR")
          .OneEach(),
      AddFlag(app, "--require-any", flags.require_any,
              "Let --require count trials that failed, too"),
      AddOption(app, "--max-failed", flags.max_failed,
                "Exit with 1 if more than N trials failed (default: all but "
                "one)")
          .TypeName("N")
          .AtLeast(0)};
  if (detach == nullptr) return;
  for (const CliOption& option : options) option.Excludes(*detach);
}

Demands CheckDemandFlags(const DemandFlags& flags) {
  return {.requirements = ParseRequirements(flags.require),
          .counts_failed = flags.require_any,
          .max_failed = flags.max_failed};
}

void AddRunFlags(CLI::App& app, RunFlags& flags) {
  const CliOption detach =
      AddFlag(app, "-d,--detach", flags.detach,
              "Run in the background and print the experiment ID");
  AddFlag(app, "-f,--follow", flags.follow,
          "Show the output of all trials (without it, only of a single trial)")
      .Excludes(detach);
  AddDemandFlags(app, flags.demands, &detach);
  AddOption(app, "--timeout", flags.timeout_text,
            "Pause after TIME and exit with 124: 90 (seconds), 30m, 1.5h")
      .TypeName("TIME");
  AddOption(app, "--disk-wait", flags.disk_wait,
            "Wait at most TIME for disk space, then pause and exit with 5 "
            "(default: 10m, on a terminal unlimited)")
      .TypeName("TIME");
  const CliOption json =
      AddFlag(app, "--json", flags.json, "Print one JSON document at the end");
  AddFlag(app, "--jsonl", flags.jsonl, "Print every event as a line of JSON")
      .Excludes(json)
      .Excludes(detach);
  AddCiFlags(app, flags.ci, detach);
}

RunRequest CheckRunFlags(const RunFlags& flags, const GlobalOptions& globals) {
  RunRequest request{.detach = flags.detach,
                     .follow = flags.follow,
                     .json = flags.json,
                     .jsonl = flags.jsonl,
                     .ci = flags.ci,
                     .demands = CheckDemandFlags(flags.demands)};
  if (!flags.timeout_text.empty()) {
    request.timeout = ParseDuration(flags.timeout_text, "--timeout");
  }
  if (!flags.disk_wait.empty()) {
    request.disk_wait = ParseDuration(flags.disk_wait, "--disk-wait");
  } else if (flags.detach || globals.quiet || ::isatty(STDERR_FILENO) != 1) {
    request.disk_wait = kDiskWait;
  }
  CheckCiFlags(flags.ci);
  CheckVariables();
  return request;
}

void RecordFindings(RunRequest& request, const Diagnostics& diagnostics) {
  request.diagnostics.insert(request.diagnostics.end(), diagnostics.begin(),
                             diagnostics.end());
  AnnotateFindings(request.ci, diagnostics);
}

std::function<void(const Diagnostics&)> FindingsRecorder(
    RunRequest& request, const GlobalOptions& globals) {
  return [&request, &globals](const Diagnostics& diagnostics) {
    PrintDiagnostics(diagnostics, globals);
    RecordFindings(request, diagnostics);
  };
}

int RunOrReport(RunRequest& request, const std::string& name,
                const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (!request.is_reported) ReportError(request, name, error);
    throw;
  }
}

namespace {

class BeginReporter : public Reporter {
 public:
  explicit BeginReporter(std::function<void()> on_begin)
      : on_begin_(std::move(on_begin)) {}

  void Begin(const RunInfo&) override { on_begin_(); }

 private:
  std::function<void()> on_begin_;
};

// Says at the first validation which metrics of --require it lacks: with a
// misspelt name the training would be for nothing.
class RequirementWatch : public Reporter {
 public:
  RequirementWatch(const std::vector<Filter>& requirements, Reporter& display)
      : requirements_(requirements), display_(display) {}

  void OnTraining(TrialId, const TrainingReport& report) override {
    if (!done_) Add(report.metrics);
  }
  void OnValidation(TrialId, const ValidationReport& report, bool) override {
    if (std::exchange(done_, true)) return;
    Add(report.metrics);
    const std::vector<std::string> names(names_.begin(), names_.end());
    for (const std::string& text : FindUnreported(requirements_, names)) {
      display_.OnNotice(LogLevel::kWarning, text);
    }
  }

 private:
  void Add(const MetricValues& metrics) {
    for (const auto& [name, value] : metrics) names_.insert(name);
  }

  std::vector<Filter> requirements_;
  Reporter& display_;
  std::set<std::string> names_;
  bool done_ = false;
};

// Passes events on to the display, and prints the output of trials between
// them.
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
  void OnTrialStarted(const TrialRow& trial, const ReportedAt& from) override {
    ReporterGroup::OnTrialStarted(trial, from);
    if (!follows_) return;
    // Show the output of the last process before that of the new one.
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
  // Limits, so that a trial with endless output cannot block the runner.
  static constexpr int kMaxLines = 1000;
  static constexpr int kMaxLastLines = 10'000;
  // Size above which only the end of a log is searched for new lines.
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

  // Shows up to `most` lines; returns false if there are more.
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
    // A failure to show output must not stop the experiment.
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

Verbosity ChooseVerbosity(const GlobalOptions& globals) {
  if (globals.quiet) return Verbosity::kQuiet;
  return globals.verbose ? Verbosity::kVerbose : Verbosity::kNormal;
}

SummaryContext MakeSummaryContext(const Store& store, const ExperimentRow& row,
                                  const ExperimentConfig& config,
                                  const GlobalOptions& globals) {
  SummaryContext context{
      .metric = row.metric,
      .hyperparameters = config.hyperparameters,
      .command = ProgramFor(globals),
      .max_length = LengthText(config.searcher.max_length, config.length_unit)};
  context.units = FindUnits(store, row.id, config);
  const auto trials = ListTrials(store, row);
  context.best_point = BestPointText(store, row, trials);
  for (const TrialRow& trial : trials) {
    ++context.trials[trial.state];
    if (trial.reason == kKilledReason) ++context.killed;
    if (trial.id.number == row.best_trial) {
      context.best_state = trial.state;
      if (row.best && row.best->checkpoint.empty()) {
        context.best_files = TrialFilesCommand(ListTrialFiles(store, trial.id),
                                               trial.id, context.command);
        if (!context.best_files.empty())
          context.best_files += FilesLaterThanBest(trial, context.units);
      }
    }
    if (trial.reason.starts_with(kEndedEarly) && context.early++ == 0) {
      context.why_early = "trial " + ToString(trial.id) + " " + trial.reason;
    }
  }
  if (const auto use = store.FindSystemUse(row.id)) {
    context.use = SummarizeUse(
        *use, FindUseContext(store, FindExperimentDetail(store, row.id)));
  }
  return context;
}

// Returns the JSON document of a finished run, for --json and --jsonl.
nlohmann::json FinalDocument(const Store& store, const RunResult& result,
                             const ExperimentRow& row,
                             const SummaryContext& context,
                             const std::vector<Check>& checks) {
  nlohmann::json document = ResultJson(result, row.metric);
  AddLength(context.units.counted, document);
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

// Says which rule keeps a file from the trials that failed without it.
void ExplainMissingFiles(const Store& store, const ExperimentRow& row,
                         const std::filesystem::path& context,
                         const GlobalOptions& globals) {
  std::set<std::string> said;
  for (const TrialRow& trial : ListTrials(store, row)) {
    if (trial.state != State::kError) continue;
    for (const std::string& one : FindLeftOutNames(trial.reason, context)) {
      if (said.insert(one).second) {
        PrintNotice(globals, "trial " + ToString(trial.id) + " failed: " + one);
      }
    }
  }
}

// Says which directory trials have downloaded again and again.
void SuggestLink(const Store& store, std::int64_t experiment,
                 const GlobalOptions& globals) {
  const auto repeated = FindRepeatedFiles(store, experiment);
  if (!repeated) return;
  PrintNotice(globals, "note: " + CountText(repeated->trials, "trial") +
                           " each wrote the same " +
                           FormatBytes(repeated->bytes) + " to '" +
                           repeated->directory + "': --link " +
                           QuoteForShell(repeated->directory) +
                           " keeps one copy for all trials");
}

// Returns what is trained again when the experiment resumes, as a part of a
// sentence.
std::string LossText(const std::vector<std::string>& lost) {
  constexpr std::size_t kShown = 3;
  if (lost.empty()) return ", nothing is lost";
  const auto shown = std::span(lost).first(std::min(lost.size(), kShown));
  std::string text =
      "; lost, because no checkpoint has it: " + Join(shown, ", ");
  if (lost.size() > kShown) {
    text += " and of " + std::to_string(lost.size() - kShown) + " more trials";
  }
  return text;
}

void ExplainResult(const RunResult& result, const GlobalOptions& globals) {
  const std::string id = std::to_string(result.experiment);
  if (result.state == State::kError || result.state == State::kCanceled) {
    // "trial 3.7: REASON" was said when that trial ended, and by the summary.
    const std::string trial = "trial " + id + ".";
    const bool is_told =
        result.error.empty() ||
        (result.error.starts_with(trial) &&
         result.error.find(": ") == result.error.find(' ', trial.size()) - 1);
    PrintError(globals, "experiment " + id + " is " +
                            std::string(StateName(result.state)) +
                            (is_told ? "" : ": " + result.error) + "; see " +
                            CommandFor(globals, "logs " + id));
  } else if (!result.error.empty()) {
    PrintError(globals,
               "experiment " + id + " is paused: " + result.error +
                   "; resume with: " + CommandFor(globals, "resume " + id));
  } else if (!IsFinal(result.state)) {
    std::cerr << "dtrain: experiment " << id << " is paused"
              << (result.timed_out ? " at its time limit (per run)" : "")
              << LossText(result.lost)
              << "; resume with: " << CommandFor(globals, "resume " + id)
              << '\n';
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
    return GetTerminalMode(STDERR_FILENO, color);
  };
  const Verbosity verbosity = ChooseVerbosity(globals);
  std::unique_ptr<Reporter> display;
  if (mode().redraw && !request.detach && !globals.quiet) {
    display = std::make_unique<LiveDisplay>(std::cerr, mode, verbosity,
                                            Clock::System());
  } else {
    display = std::make_unique<PlainReporter>(std::cerr, mode(), verbosity);
  }
  if (!request.demands.requirements.empty()) {
    group->Add(std::make_unique<RequirementWatch>(request.demands.requirements,
                                                  *display));
  }
  const LogFollower::Scope scope =
      request.detach || globals.quiet ? LogFollower::Scope::kNone
      : request.follow                ? LogFollower::Scope::kAll
                                      : LogFollower::Scope::kSingle;
  group->Add(std::make_unique<LogFollower>(std::move(display), layout, scope,
                                           ProgramFor(globals)));
  return group;
}

namespace {

// Compares the trainings of `dtrain confirm`, also after `dtrain resume`, with
// what the search reported.
std::optional<RunConclusion> ConcludeConfirmation(const Store& store,
                                                  const RunResult& result) {
  if (!IsFinal(result.state)) return std::nullopt;
  const ExperimentDetail detail =
      FindExperimentDetail(store, result.experiment);
  if (!detail.provenance.contains(kConfirms)) return std::nullopt;
  RunConclusion conclusion{.key = "confirmed",
                           .document = nlohmann::json::array(),
                           .text = "trained again, the best mean first:"};
  const auto trials = store.Trials(result.experiment);
  for (const ConfirmedTrial& row : ListConfirmed(trials, detail)) {
    conclusion.document.push_back(row.ToJson());
    conclusion.text += "\n  " + row.Text();
  }
  return conclusion;
}

}  // namespace

int ReportResult(const Store& store, const RunResult& result,
                 const ExperimentConfig& config, RunRequest& request,
                 const GlobalOptions& globals) {
  const ExperimentRow row = FindExperiment(store, result.experiment);
  // A paused run is not judged: it can still meet the requirements.
  const auto checks = IsFinal(result.state)
                          ? CheckRequirements(request.demands, store, row)
                          : std::vector<Check>{};
  const auto conclusion = request.conclude
                              ? request.conclude(store, result)
                              : ConcludeConfirmation(store, result);
  const SummaryContext context =
      MakeSummaryContext(store, row, config, globals);
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
    const std::size_t width =
        GetTerminalMode(STDOUT_FILENO, globals.color).width;
    for (const std::string& line : Split(SummaryText(result, context), '\n')) {
      if (!line.empty()) {
        std::cout << WrapText(line, 0, kWrapIndent, width) << '\n';
      }
    }
    if (conclusion) {
      for (const std::string& line : Split(conclusion->text, '\n')) {
        std::cout << EscapeForTerminal(line) << '\n';
      }
    }
  }
  ExplainResult(result, globals);
  if (request.context) {
    ExplainMissingFiles(store, row, *request.context, globals);
  }
  SuggestLink(store, row.id, globals);
  const bool met = ReportUnmet(checks, result.experiment, globals) &&
                   (!conclusion || conclusion->met);
  const bool few_failed =
      !IsFinal(result.state) ||
      ReportFailedTrials(request.demands, store, row, globals);
  const CheckedExperiment judged{.row = row, .checks = checks};
  WriteCiReport(request.ci, store, std::span(&judged, 1));
  const int code = ToExitCode(result);
  if (code != kExitDone) return code;
  if (!few_failed) return kExitFailed;
  return met ? kExitDone : kExitRequirement;
}

namespace {

using nlohmann::json;

// Called by a background process once its experiment is running: releases the
// caller, and redirects its own output to `log`.
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
                log.string() + ": cannot write: " + ErrnoText());
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

int BackgroundMain(const std::function<int(Departure)>& body, UniqueFd pipe) {
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
  return code;
}

// Runs `body` in a process of its own session and returns the id of its
// experiment. Throws the Error that `body` threw before it had an id.
std::int64_t RunInBackground(const std::function<int(Departure)>& body) {
  std::cout.flush();
  const UniqueFd in = ForkDetached(
      [&](UniqueFd pipe) { return BackgroundMain(body, std::move(pipe)); });
  if (!in) {
    throw Error(ErrorKind::kFailed, std::string("-d: cannot fork: ") +
                                        ErrnoText() +
                                        "; free some processes or run without "
                                        "-d");
  }
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
  // The reader of our output may exit; the experiment continues.
  std::signal(SIGPIPE, SIG_IGN);
  Store store = OpenStoreForWriting(layout, globals);
  const std::int64_t id = record(store);
  request.experiment = id;
  std::function<void()> on_begin;
  if (departure) {
    on_begin = [&] { departure(id, layout.RunnerLog(id)); };
  }
  RequireOwnFiles(layout, id);
  // Compile the stored copy, not the original directory.
  const auto own = CompileOwnModel(config, layout.Context(id), globals);
  const auto reporter = MakeReporter(layout, request, globals, on_begin);
  const RunResult result =
      RunExperiment(store, id, config,
                    {.timeout = request.timeout,
                     .disk_wait = request.disk_wait,
                     .library = own ? own->file.string() : "",
                     .retry_failed = request.retry_failed},
                    *reporter, request.detach, request.nodes);
  return ReportResult(store, result, config, request, globals);
}

}  // namespace

std::int64_t StartRunner(const StoreLayout& layout, const Recording& record,
                         const ExperimentConfig& config, RunRequest& request,
                         const GlobalOptions& globals) {
  return RunInBackground([&](const Departure& departure) {
    return RunHere(layout, record, config, request, globals, departure);
  });
}

int RunRecorded(const StoreLayout& layout, const Recording& record,
                const ExperimentConfig& config, RunRequest& request,
                const GlobalOptions& globals) {
  if (!request.detach) {
    return RunHere(layout, record, config, request, globals, nullptr);
  }
  const std::int64_t id = StartRunner(layout, record, config, request, globals);
  if (request.json) {
    PrintJson({{"experiment", id}, {"store", layout.root().string()}});
  } else {
    std::cout << id << '\n';
  }
  const std::string text = std::to_string(id);
  PrintNotice(globals, "experiment " + text + " runs in the background; see " +
                           CommandFor(globals, "watch " + text) + " or " +
                           CommandFor(globals, "logs " + text + " -f"));
  return kExitDone;
}

void AddDeriveFlags(CLI::App& app, DeriveFlags& flags,
                    const std::string& source) {
  AddOption(app, "--set", flags.overrides,
            "Override a key of the " + source + "'s configuration (repeatable)")
      .TypeName("KEY=VALUE")
      .OneEach()
      .Completes(ValueKind::kKey);
  AddOption(app, "--name", flags.name, "Name of the new experiment")
      .TypeName("NAME");
  AddOption(app, "--label", flags.labels, "Add a label (repeatable)")
      .TypeName("LABEL")
      .OneEach();
}

ConfigChanges ToChanges(const DeriveFlags& flags) {
  ConfigChanges changes{.overrides = flags.overrides, .labels = flags.labels};
  if (!flags.name.empty()) {
    changes.overrides.push_back("name=" + QuotedForYaml(flags.name));
  }
  return changes;
}

int RunDerived(const StoreLayout& layout, const DerivedExperiment& derived,
               RunRequest& request, const GlobalOptions& globals) {
  const Recording record = [&](Store& store) {
    const ExperimentConfig& config = derived.config;
    return RecordExperiment(store, config,
                            RecordedYaml(ToYaml(config.effective), config),
                            derived.provenance, derived.parts);
  };
  return RunRecorded(layout, record, derived.config, request, globals);
}

}  // namespace dtrain

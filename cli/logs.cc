// `dtrain logs`: merges the logs of all trials by time, and follows them.
//
// With -f the state of the experiment is read before the logs in every round.
// If the experiment has ended by then, the logs are complete, and the round
// that follows is the last one. Long lines are stored in several records; the
// printer joins them unless another trial's line comes between.

#include "engine/report/logs.h"

#include <ctime>
#include <deque>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>

#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"
#include "engine/report/plain_reporter.h"
#include "engine/report/terminal.h"

namespace dtrain {
namespace {

enum class LogForm { kText, kJson, kJsonLines };

struct LogStyle {
  LogForm form = LogForm::kText;
  bool timestamps = false;
  bool raw = false;  // without a prefix; bytes as written, but on a terminal
  TerminalMode mode;
};

// Prints records of logs one after another: text prefixed by the trial (and
// the rank, where it is not 0); or JSON. All of it is escaped where a terminal
// would obey it.
class LogPrinter {
 public:
  LogPrinter(std::ostream& out, LogStyle style)
      : out_(out), style_(std::move(style)) {}

  void Print(const MergedRecord& merged);
  // Ends the document or the line that is open. Call it once, at the end.
  void Finish();

 private:
  std::string Json(const MergedRecord& merged) const;
  void PrintText(const MergedRecord& merged);
  bool GoesOn(const MergedRecord& merged) const;

  std::ostream& out_;
  LogStyle style_;
  bool first_ = true;
  // Record whose line is unfinished because it was cut.
  std::optional<MergedRecord> open_;
};

std::string Prefix(const MergedRecord& merged, bool timestamps) {
  std::string prefix = ToString(merged.trial);
  if (merged.record.rank > 0) {
    prefix += "/" + std::to_string(merged.record.rank);
  }
  if (timestamps) prefix += " " + FormatTimestamp(merged.record.time);
  return prefix + " | ";
}

void LogPrinter::Print(const MergedRecord& merged) {
  switch (style_.form) {
    case LogForm::kText:
      PrintText(merged);
      break;
    case LogForm::kJson:
      out_ << (first_ ? "{\"logs\": [\n" : ",\n") << Json(merged);
      break;
    case LogForm::kJsonLines:
      out_ << Json(merged) << '\n';
      break;
  }
  first_ = false;
}

std::string LogPrinter::Json(const MergedRecord& merged) const {
  return DumpJson(LogJson(merged.trial, merged.record), /*indent=*/-1,
                  style_.mode.terminal);
}

void LogPrinter::Finish() {
  if (open_) out_ << '\n';
  open_.reset();
  if (style_.form == LogForm::kJson) {
    out_ << (first_ ? "{\"logs\": []}\n" : "\n]}\n");
  }
}

void LogPrinter::PrintText(const MergedRecord& merged) {
  const bool goes_on = GoesOn(merged);
  if (open_ && !goes_on) out_ << '\n';
  if (!goes_on && !style_.raw) {
    out_ << Paint(style_.mode, Tone::kDim, Prefix(merged, style_.timestamps));
  }
  const std::string& text = merged.record.text;
  if (!style_.mode.terminal) {
    out_ << text;
  } else if (style_.raw) {
    out_ << EscapeForTerminal(text);
  } else {
    out_ << Paint(style_.mode, ChooseTone(merged.record.level),
                  EscapeForTerminal(text));
  }
  open_.reset();
  if (merged.record.partial) {
    open_ = merged;
  } else {
    out_ << '\n';
  }
}

// True if the record continues the open line.
bool LogPrinter::GoesOn(const MergedRecord& merged) const {
  return open_ && open_->trial == merged.trial &&
         open_->record.rank == merged.record.rank &&
         open_->record.from_stderr == merged.record.from_stderr;
}

struct LogsOptions {
  std::string target;
  bool follow = false;
  std::optional<std::int64_t> head;
  std::optional<std::int64_t> tail;
  std::string level;
  std::optional<int> rank;
  std::string since;
  std::string until;
  std::string grep;
  bool raw = false;
  bool timestamps = false;
  bool json = false;
  bool jsonl = false;
};

LogFilter MakeLogFilter(const LogsOptions& options) {
  LogFilter filter;
  if (!options.level.empty()) filter.least = LogLevelFromName(options.level);
  filter.rank = options.rank;
  const Timestamp now = Clock::System().now();
  if (!options.since.empty()) {
    filter.since = ParseLogTime(options.since, "--since", now);
  }
  if (!options.until.empty()) {
    filter.until = ParseLogTime(options.until, "--until", now);
  }
  if (filter.since && filter.until && *filter.since > *filter.until) {
    throw Error(ErrorKind::kUsage,
                "logs: --since is later than --until; exchange the times");
  }
  if (!options.grep.empty()) filter.grep.emplace(options.grep);
  return filter;
}

LogStyle MakeLogStyle(const LogsOptions& options,
                      const GlobalOptions& globals) {
  LogStyle style{.timestamps = options.timestamps,
                 .raw = options.raw,
                 .mode = GetTerminalMode(STDOUT_FILENO, globals.color)};
  if (options.json) style.form = LogForm::kJson;
  if (options.jsonl) style.form = LogForm::kJsonLines;
  return style;
}

// Reads the logs of an experiment or trial, and follows them as they grow.
class LogReading {
 public:
  LogReading(const Store& store, Target target, const LogsOptions& options,
             LogFilter filter)
      : store_(store),
        target_(target),
        options_(options),
        filter_(std::move(filter)),
        // With a filter the number of lines is unknown, so everything is read.
        merger_(filter_.empty() ? options.tail : std::nullopt) {}

  void Run(LogPrinter& printer) {
    AddTrials();
    options_.tail ? PrintTail(printer) : PrintNew(printer);
    while (options_.follow && !Enough() && !over_ && !TimeIsUp()) {
      std::cout.flush();
      if (!std::cout) return;
      const timespec nap{.tv_sec = 0, .tv_nsec = 200'000'000};
      nanosleep(&nap, nullptr);
      // Checked before reading the logs, so that no last line is missed.
      AddTrials();
      merger_.Refresh();
      PrintNew(printer);
    }
  }

  bool printed() const { return printed_ > 0; }

 private:
  bool Enough() const { return options_.head && printed_ >= *options_.head; }

  bool TimeIsUp() const {
    return filter_.until && Clock::System().now() > *filter_.until;
  }

  void AddTrials() {
    const ExperimentRow row = FindExperiment(store_, target_.experiment);
    over_ = row.state != State::kRunning && row.state != State::kPending;
    if (known_version_ == store_.DataVersion() && !over_) return;
    known_version_ = store_.DataVersion();
    for (const TrialRow& trial : ListTrials(store_, row)) {
      if (target_.trial && trial.id.number != *target_.trial) continue;
      const bool grows = options_.follow && !over_ && !IsFinal(trial.state);
      if (known_.insert(trial.id).second) {
        merger_.Add({.trial = trial.id,
                     .path = store_.layout().TrialLog(trial.id),
                     .begins = trial.created,
                     .grows = grows});
      } else if (!grows) {
        merger_.End(trial.id);
      }
    }
  }

  void PrintNew(LogPrinter& printer) {
    while (!Enough() && std::cout) {
      const auto merged = merger_.Next();
      if (!merged) return;
      if (!filter_.Accepts(merged->record)) continue;
      printer.Print(*merged);
      ++printed_;
    }
  }

  void PrintTail(LogPrinter& printer) {
    std::deque<MergedRecord> last;
    while (auto merged = merger_.Next()) {
      if (!filter_.Accepts(merged->record)) continue;
      last.push_back(*std::move(merged));
      if (std::ssize(last) > *options_.tail) last.pop_front();
    }
    for (const MergedRecord& merged : last) printer.Print(merged);
    printed_ += std::ssize(last);
  }

  const Store& store_;
  Target target_;
  const LogsOptions& options_;
  LogFilter filter_;
  LogMerger merger_;
  std::set<TrialId> known_;
  std::int64_t known_version_ = -1;
  std::int64_t printed_ = 0;
  bool over_ = false;
};

void PrintNoLines(const LogsOptions& options, const std::string& imported,
                  const GlobalOptions& globals) {
  const bool chosen =
      options.head == 0 || options.tail == 0 || !MakeLogFilter(options).empty();
  PrintNotice(
      globals,
      options.target +
          (chosen ? " has no matching log lines"
                  : " has no log lines" +
                        (imported.empty() ? "" : ", since " + imported) +
                        "; see its metrics: " +
                        NamedCommand(
                            CommandFor(globals, "metrics " + options.target))));
}

int Logs(const LogsOptions& options, const GlobalOptions& globals) {
  if (options.follow && options.json) {
    throw Error(ErrorKind::kUsage,
                "logs: --json prints one document and cannot be combined with "
                "-f; use --jsonl");
  }
  LogFilter filter = MakeLogFilter(options);
  const Store store = OpenStore(globals);
  const Target target = ResolveTarget(store, options.target);
  FindTarget(store, target);
  LogReading reading(store, target, options, std::move(filter));
  LogPrinter printer(std::cout, MakeLogStyle(options, globals));
  reading.Run(printer);
  printer.Finish();
  if (!reading.printed() && !options.json && !options.jsonl && !options.raw) {
    PrintNoLines(options,
                 ImportedText(FindExperimentDetail(store, target.experiment)),
                 globals);
  }
  return kExitDone;
}

void AddFilterOptions(CLI::App& app, LogsOptions& options) {
  AddOption(app, "--level", options.level,
            "Minimum level: debug, info, warning or error")
      .TypeName("LEVEL")
      .Suggests({"debug", "info", "warning", "error"});
  AddOption(app, "--rank", options.rank, "Only lines of rank N")
      .TypeName("N")
      .AtLeast(0);
  AddOption(app, "--since", options.since,
            "Only lines since TIME: 10m (ago) or an RFC 3339 time")
      .TypeName("TIME");
  AddOption(app, "--until", options.until,
            "Only lines until TIME; with -f, the end")
      .TypeName("TIME");
  AddOption(app, "--grep", options.grep,
            "Only lines that match RE, a regular expression in RE2 syntax")
      .TypeName("RE");
}

}  // namespace

CommandRun SetUpLogs(CLI::App& app) {
  auto options = std::make_shared<LogsOptions>();
  AddOption(app, "EXP", options->target, "Experiment (3) or trial (3.7)")
      .Completes(ValueKind::kTarget)
      .Required();
  AddFlag(app, "-f,--follow", options->follow,
          "Keep printing new lines until the experiment ends");
  const CliOption head =
      AddOption(app, "--head", options->head,
                "Print only the first N of the selected lines");
  const CliOption tail =
      AddOption(app, "--tail", options->tail,
                "Print only the last N of the selected lines");
  head.AtLeast(0).TypeName("N");
  tail.AtLeast(0).TypeName("N").Excludes(head);
  AddFilterOptions(app, *options);
  AddFlag(app, "-t,--timestamps", options->timestamps,
          "Print the time of each line");
  const CliOption raw = AddFlag(
      app, "--raw", options->raw,
      "Print the bytes as written, without the trial (escaped on a terminal)");
  const CliOption json =
      AddFlag(app, "--json", options->json, "Print one JSON document");
  AddFlag(app, "--jsonl", options->jsonl, "Print one JSON object per line")
      .Excludes(json)
      .Excludes(raw);
  SetHelp(app, {.exits = ReaderExits(),
                .examples = {{"Follow the logs of a running experiment",
                              "dtrain logs 3 -f"},
                             {"Show the last errors of a trial",
                              "dtrain logs 3.7 --level error --tail 20"}}});
  return RunWith(Logs, options);
}

}  // namespace dtrain

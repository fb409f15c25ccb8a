#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/report/terminal.h"
#include "engine/run/reporter.h"

namespace dtrain {

// The events of a run as lines for people, which other reporters print too. All
// lines are escaped.

/// "experiment 3 'digits': single search of accuracy on 2 CPU slots, seed 12".
std::string BeginLine(const RunInfo& info);
/// Reason for which a trial's process starts.
enum class StartKind {
  kStarted,   // for the first time, or from nothing
  kResumed,   // from a checkpoint
  kPromoted,  // from a checkpoint, as the searcher wants more of it
};

/// Distinguishes promotions from other starts: a trial that was paused in this
/// run had done all that was asked of it, and starts again only if the searcher
/// wants more.
class PausedTrials {
 public:
  void RecordEnd(const TrialRow& trial);
  StartKind RecordStart(TrialId trial, const ReportedAt& from);
  /// True if the trial, which was just stopped, had been paused.
  bool RecordStop(TrialId trial) { return paused_.erase(trial) > 0; }

 private:
  std::set<TrialId> paused_;
};

/// Limits the notice that trials are pending: due once while no trial runs, and
/// again only after one did.
class SlotWaitNotice {
 public:
  bool IsDue(const RunStatus& status);

 private:
  bool reported_ = false;
};

/// Last reported position of each trial of a run.
class LastReports {
 public:
  void Update(TrialId trial, const ReportedAt& at) { last_[trial] = at; }
  /// Returns `at` with the epoch of its batches, if that is known.
  ReportedAt Find(TrialId trial, const ReportedAt& at) const;

 private:
  std::map<TrialId, ReportedAt> last_;
};

/// "3.1 started: lr=0.01", or "3.1 resumed from batch 6000: …", with the
/// hyperparameters that are searched according to `info`.
std::string StartedLine(const RunInfo& info, const TrialRow& trial,
                        StartKind kind, const ReportedAt& from);
std::string TrainingLine(const RunInfo& info, TrialId trial,
                         const TrainingReport& report);
std::string ValidationLine(const RunInfo& info, TrialId trial,
                           const ValidationReport& report, bool best);
std::string CheckpointLine(const RunInfo& info, TrialId trial,
                           const CheckpointSaved& saved);

/// `at`: where the trial is.
std::string CheckpointFailedText(const RunInfo& info, TrialId trial,
                                 const CheckpointFailed& failed,
                                 const ReportedAt& at);

/// Returns a line that a trial has printed: unchanged for the only trial, after
/// the trial's id in a search, with the rank unless it is the first. Only the
/// text after the last '\r' is kept, as a terminal would show it.
std::string OutputLine(const RunInfo& info, TrialId trial,
                       const LogRecord& record);
/// Returns the line without the trial's id: "line", or "/1 | line" of a later
/// rank.
std::string OutputLine(const LogRecord& record);

/// True if the trial ended in a way that a user must see.
bool IsFailure(const TrialRow& trial);
/// Returns the end of the trial with its reason, in a search with its last
/// validation, and for a failure with the last lines of its log. `epoch`: the
/// epoch of its last batch; 0: taken from the row.
std::vector<std::string> EndedLines(const RunInfo& info, const TrialRow& trial,
                                    const std::vector<std::string>& last_lines,
                                    double epoch = 0);

/// True if the run may have many trials, so that not every validation is shown.
bool IsSearch(const RunInfo& info);

/// Amount of output about a run.
enum class Verbosity { kQuiet, kNormal, kVerbose };

/// Prints a line for each event of a run, for logs and for terminals that
/// cannot redraw. Training reports are printed only if verbose, failures
/// always. In a search, which has many trials, a validation is printed only if
/// it is the best so far: the line of a trial's end has its last one.
class PlainReporter : public Reporter {
 public:
  PlainReporter(std::ostream& out, TerminalMode mode, Verbosity verbosity)
      : out_(out), mode_(mode), verbosity_(verbosity) {}

  void Begin(const RunInfo& info) override;
  void OnCounted(Unit unit) override { info_.units.counted = unit; }
  void OnTrialStarted(const TrialRow& trial, const ReportedAt& from) override;
  void OnTraining(TrialId trial, const TrainingReport& report) override;
  void OnValidation(TrialId trial, const ValidationReport& report,
                    bool best) override;
  void OnCheckpoint(TrialId trial, const CheckpointSaved& saved) override;
  void OnTrialEnded(const TrialRow& trial,
                    const std::vector<std::string>& last_lines) override;
  void OnOutput(TrialId trial, const LogRecord& record) override;
  void OnCheckpointFailed(TrialId trial,
                          const CheckpointFailed& failed) override;
  void OnNotice(LogLevel level, const std::string& text) override;
  /// Prints once that trials are pending, until one gets slots.
  void OnStatus(const RunStatus& status) override;
  /// Prints one line for all paused trials of a search that were stopped.
  void End(const RunResult& result) override;

 private:
  // `wrap`: between words; not what programs print.
  void PrintLine(Verbosity least, Tone tone, const std::string& line,
                 bool wrap = true);

  std::ostream& out_;
  TerminalMode mode_;
  Verbosity verbosity_;
  RunInfo info_;
  PausedTrials paused_;
  SlotWaitNotice slot_wait_;
  LastReports reports_;
  std::int64_t stopped_ = 0;  // of those
};

/// Returns the line of a notice: "warning: …", escaped.
std::string NoticeLine(LogLevel level, const std::string& text);
Tone ChooseTone(LogLevel level);
/// True if a notice of `level` is printed.
bool IsVisible(LogLevel level, Verbosity verbosity);

/// Passes every event on to several reporters, in the order they were added.
class ReporterGroup : public Reporter {
 public:
  void Add(std::unique_ptr<Reporter> reporter) {
    reporters_.push_back(std::move(reporter));
  }

  void Begin(const RunInfo& info) override {
    for (const auto& r : reporters_) r->Begin(info);
  }
  void OnCounted(Unit unit) override {
    for (const auto& r : reporters_) r->OnCounted(unit);
  }
  void OnTrialStarted(const TrialRow& trial, const ReportedAt& from) override {
    for (const auto& r : reporters_) r->OnTrialStarted(trial, from);
  }
  void OnTraining(TrialId trial, const TrainingReport& report) override {
    for (const auto& r : reporters_) r->OnTraining(trial, report);
  }
  void OnValidation(TrialId trial, const ValidationReport& report,
                    bool best) override {
    for (const auto& r : reporters_) r->OnValidation(trial, report, best);
  }
  void OnCheckpoint(TrialId trial, const CheckpointSaved& saved) override {
    for (const auto& r : reporters_) r->OnCheckpoint(trial, saved);
  }
  void OnCheckpointFailed(TrialId trial,
                          const CheckpointFailed& failed) override {
    for (const auto& r : reporters_) r->OnCheckpointFailed(trial, failed);
  }
  void OnTrialEnded(const TrialRow& trial,
                    const std::vector<std::string>& lines) override {
    for (const auto& r : reporters_) r->OnTrialEnded(trial, lines);
  }
  void OnUnread(TrialId trial, const std::vector<std::string>& names) override {
    for (const auto& r : reporters_) r->OnUnread(trial, names);
  }
  void OnOutput(TrialId trial, const LogRecord& record) override {
    for (const auto& r : reporters_) r->OnOutput(trial, record);
  }
  void OnNotice(LogLevel level, const std::string& text) override {
    for (const auto& r : reporters_) r->OnNotice(level, text);
  }
  void OnWorkers(const std::string& summary) override {
    for (const auto& r : reporters_) r->OnWorkers(summary);
  }
  void OnStatus(const RunStatus& status) override {
    for (const auto& r : reporters_) r->OnStatus(status);
  }
  void End(const RunResult& result) override {
    for (const auto& r : reporters_) r->End(result);
  }

 private:
  std::vector<std::unique_ptr<Reporter>> reporters_;
};

}  // namespace dtrain

// A run as lines of text, for logs and pipes.
//
// A search prints one line when a trial starts, is paused, promoted, is the
// best so far, or ends. Validations that are not the best so far are only shown
// with --verbose, because a search of a thousand trials would print little
// else.

#include "engine/report/plain_reporter.h"

#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

// Adds the epoch to the position of a report in one unit.
std::string At(const RunInfo& info, const ReportedAt& at) {
  const std::string text = PositionText(at, info.units);
  // A command may report no epochs, or count in epochs.
  const bool known = at.epoch != 0 || at.batches == 0;
  if (!known || text.starts_with("epoch ") || text.ends_with(')')) return text;
  return text + " (epoch " + FormatMetric(at.epoch) + ")";
}

std::string StartText(const RunInfo& info, StartKind kind,
                      const ReportedAt& at) {
  const std::string from = " from " + PositionText(at, info.units);
  switch (kind) {
    case StartKind::kStarted:
      return " started";
    case StartKind::kResumed:
      return " resumed" + from;
    case StartKind::kPromoted:
      return at.batches == 0 ? " promoted, runs again from its beginning"
                             : " promoted, resumed" + from;
  }
  return "";
}

// Returns why the trial ended, or what it waits for.
std::string EndText(const TrialRow& trial) {
  const bool all_done =
      trial.rung > 0 && trial.latest && trial.latest->batches == trial.batches;
  if (trial.state != State::kPaused || !all_done) return trial.reason;
  const std::string why = "its slot is released";
  return trial.reason.empty() ? why : trial.reason + "; " + why;
}

}  // namespace

std::string BeginLine(const RunInfo& info) {
  const std::string what = info.resumed ? " resumed: " : ": ";
  const std::string direction =
      info.smaller_is_better ? "minimizing " : "maximizing ";
  return EscapeForTerminal("experiment " + std::to_string(info.experiment) +
                           " '" + info.name + "'" + what + info.searcher +
                           " search " + direction + info.metric +
                           (info.slots.empty() ? "" : " on " + info.slots) +
                           ", seed " + std::to_string(info.seed));
}

void PausedTrials::RecordEnd(const TrialRow& trial) {
  if (trial.state == State::kPaused) paused_.insert(trial.id);
}

StartKind PausedTrials::RecordStart(TrialId trial, const ReportedAt& from) {
  const bool promoted = paused_.erase(trial) > 0;
  if (promoted) return StartKind::kPromoted;
  return from.batches == 0 ? StartKind::kStarted : StartKind::kResumed;
}

ReportedAt LastReports::Find(TrialId trial, const ReportedAt& at) const {
  const auto last = last_.find(trial);
  const bool is_there =
      last != last_.end() && last->second.batches == at.batches;
  return is_there ? last->second : at;
}

bool SlotWaitNotice::IsDue(const RunStatus& status) {
  if (!status.running.empty()) reported_ = false;
  if (reported_ || !status.slot_wait || !status.running.empty()) return false;
  return reported_ = true;
}

std::string StartedLine(const RunInfo& info, const TrialRow& trial,
                        StartKind kind, const ReportedAt& from) {
  const std::string hparams = FormatHparamsBriefly(
      SearchedHparams(info.hyperparameters, trial.hparams));
  return EscapeForTerminal(ToString(trial.id) + StartText(info, kind, from) +
                           (hparams.empty() ? "" : ": " + hparams));
}

std::string TrainingLine(const RunInfo& info, TrialId trial,
                         const TrainingReport& report) {
  return EscapeForTerminal(ToString(trial) + " training at " +
                           At(info, {report.batches, report.epoch}) + ": " +
                           FormatMetrics(report.metrics));
}

std::string ValidationLine(const RunInfo& info, TrialId trial,
                           const ValidationReport& report, bool best) {
  return EscapeForTerminal(ToString(trial) + " validation at " +
                           At(info, {report.batches, report.epoch}) + ": " +
                           FormatMetrics(report.metrics) +
                           (best ? " (best so far)" : ""));
}

std::string CheckpointLine(const RunInfo& info, TrialId trial,
                           const CheckpointSaved& saved) {
  return EscapeForTerminal(ToString(trial) + " checkpoint " + saved.uuid +
                           " at " + At(info, {saved.batches, saved.epoch}) +
                           ", " + FormatBytes(saved.bytes));
}

std::string CheckpointFailedText(const RunInfo& info, TrialId trial,
                                 const CheckpointFailed& failed,
                                 const ReportedAt& at) {
  const std::string where = PositionText(at, info.units);
  const std::string experiment = std::to_string(trial.experiment);
  return "trial " + ToString(trial) +
         (failed.waits
              ? " is waiting at " + where + " with its state in memory: "
              : ": no checkpoint at " + where +
                    ", the previous one is kept: ") +
         failed.message +
         (failed.waits ? "; it continues when there is space, and "
                         "`dtrain pause " +
                             experiment +
                             "` gives up the training since its last checkpoint"
                       : "; training continues");
}

std::string OutputLine(const RunInfo& info, TrialId trial,
                       const LogRecord& record) {
  const std::string line = OutputLine(record);
  if (record.rank > 0) return ToString(trial) + line;
  return IsSearch(info) ? ToString(trial) + " | " + line : line;
}

std::string OutputLine(const LogRecord& record) {
  std::string_view text = record.text;
  while (text.ends_with('\r')) text.remove_suffix(1);
  // Progress bars overwrite their line by carriage returns; its last text is
  // shown.
  text.remove_prefix(text.rfind('\r') + 1);  // npos + 1 is 0
  return (record.rank > 0 ? "/" + std::to_string(record.rank) + " | " : "") +
         EscapeForTerminal(text);
}

bool IsFailure(const TrialRow& trial) {
  return trial.state == State::kError || trial.state == State::kRunning;
}

std::vector<std::string> EndedLines(const RunInfo& info, const TrialRow& trial,
                                    const std::vector<std::string>& last_lines,
                                    double epoch) {
  const std::string id = ToString(trial.id);
  std::string line = id;
  if (trial.state == State::kError) {
    line += " failed";
  } else if (trial.state == State::kRunning) {
    line +=
        " failed and restarts (restart " + std::to_string(trial.restarts) + ")";
  } else if (trial.state == State::kInvalid) {
    line += " is INVALID";
  } else {
    std::string state(StateName(trial.state));
    // To lower case; names of states are letters.
    for (char& c : state) c = static_cast<char>(c | 0x20);
    ReportedAt at = trial.at();
    if (epoch > 0) at.epoch = epoch;
    line += " " + state + " at " + PositionText(at, info.units);
    if (IsSearch(info) && trial.latest) {
      line += ", " + info.metric + " " + FormatMetric(trial.latest->value);
    }
  }
  const std::string why = EndText(trial);
  if (!why.empty()) line += ": " + why;
  std::vector<std::string> lines = {EscapeForTerminal(line)};
  if (!IsFailure(trial)) return lines;
  for (const std::string& log : last_lines) {
    lines.push_back(id + " | " + EscapeForTerminal(log));
  }
  return lines;
}

bool IsSearch(const RunInfo& info) {
  return info.searcher != "single" || info.repeats > 1;
}

void PlainReporter::Begin(const RunInfo& info) {
  info_ = info;
  PrintLine(Verbosity::kNormal, Tone::kPlain, BeginLine(info));
}

void PlainReporter::OnTrialStarted(const TrialRow& trial,
                                   const ReportedAt& from) {
  const StartKind kind = paused_.RecordStart(trial.id, from);
  PrintLine(Verbosity::kNormal, Tone::kPlain,
            StartedLine(info_, trial, kind, from));
}

void PlainReporter::OnTraining(TrialId trial, const TrainingReport& report) {
  reports_.Update(trial, {report.batches, report.epoch});
  PrintLine(Verbosity::kVerbose, Tone::kPlain,
            TrainingLine(info_, trial, report));
}

void PlainReporter::OnValidation(TrialId trial, const ValidationReport& report,
                                 bool best) {
  reports_.Update(trial, {report.batches, report.epoch});
  const bool minor = IsSearch(info_) && !best;
  PrintLine(minor ? Verbosity::kVerbose : Verbosity::kNormal, Tone::kPlain,
            ValidationLine(info_, trial, report, best));
}

void PlainReporter::OnCheckpoint(TrialId trial, const CheckpointSaved& saved) {
  reports_.Update(trial, {saved.batches, saved.epoch});
  PrintLine(Verbosity::kVerbose, Tone::kPlain,
            CheckpointLine(info_, trial, saved));
}

void PlainReporter::OnTrialEnded(const TrialRow& trial,
                                 const std::vector<std::string>& last_lines) {
  paused_.RecordEnd(trial);
  if (trial.state == State::kStopped && paused_.RecordStop(trial.id)) {
    ++stopped_;
    if (verbosity_ != Verbosity::kVerbose) return;
  }
  const bool failure = IsFailure(trial);
  const Verbosity least = failure ? Verbosity::kQuiet : Verbosity::kNormal;
  const auto lines = EndedLines(info_, trial, last_lines,
                                reports_.Find(trial.id, trial.at()).epoch);
  for (const std::string& line : lines) {
    const bool is_log = &line != &lines.front();
    PrintLine(least, failure && !is_log ? Tone::kBad : Tone::kPlain, line,
              /*wrap=*/!is_log);
  }
}

void PlainReporter::End(const RunResult&) {
  if (stopped_ == 0) return;
  const bool one = stopped_ == 1;
  PrintLine(Verbosity::kNormal, Tone::kPlain,
            std::to_string(stopped_) +
                (one ? " paused trial was" : " paused trials were") +
                " not promoted further, and stopped");
}

void PlainReporter::OnOutput(TrialId trial, const LogRecord& record) {
  if (!IsVisible(record.level, verbosity_)) return;
  PrintLine(Verbosity::kQuiet, ChooseTone(record.level),
            OutputLine(info_, trial, record), /*wrap=*/false);
}

void PlainReporter::OnCheckpointFailed(TrialId trial,
                                       const CheckpointFailed& failed) {
  OnNotice(
      LogLevel::kWarning,
      CheckpointFailedText(info_, trial, failed,
                           reports_.Find(trial, {.batches = failed.batches})));
}

void PlainReporter::OnNotice(LogLevel level, const std::string& text) {
  if (!IsVisible(level, verbosity_)) return;
  PrintLine(Verbosity::kQuiet, ChooseTone(level), NoticeLine(level, text));
}

void PlainReporter::OnStatus(const RunStatus& status) {
  if (!slot_wait_.IsDue(status)) return;
  PrintLine(Verbosity::kNormal, Tone::kPlain,
            NoticeLine(LogLevel::kInfo, status.slot_wait->ToString()));
}

void PlainReporter::PrintLine(Verbosity least, Tone tone,
                              const std::string& line, bool wrap) {
  if (verbosity_ < least) return;
  out_ << Paint(mode_, tone,
                wrap ? WrapText(line, 0, kWrapIndent, mode_.width) : line) +
              "\n"
       << std::flush;
}

std::string NoticeLine(LogLevel level, const std::string& text) {
  const bool named = level != LogLevel::kInfo;
  return "dtrain: " +
         (named ? std::string(LogLevelName(level)) + ": " : std::string()) +
         EscapeForTerminal(text);
}

Tone ChooseTone(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return Tone::kDim;
    case LogLevel::kInfo:
      return Tone::kPlain;
    case LogLevel::kWarning:
      return Tone::kWarning;
    case LogLevel::kError:
      return Tone::kBad;
  }
  return Tone::kPlain;
}

bool IsVisible(LogLevel level, Verbosity verbosity) {
  switch (verbosity) {
    case Verbosity::kQuiet:
      return level == LogLevel::kError;
    case Verbosity::kNormal:
      return level != LogLevel::kDebug;
    case Verbosity::kVerbose:
      return true;
  }
  return true;
}

}  // namespace dtrain

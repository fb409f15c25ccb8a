#include "engine/report/plain_reporter.h"

#include "engine/base/text.h"
#include "engine/report/event_text.h"
#include "engine/report/format.h"

namespace dtrain {

void PlainReporter::Begin(const RunInfo& info) {
  info_ = info;
  Say(Verbosity::kNormal, Tone::kPlain, BeginLine(info));
}

void PlainReporter::OnTrialStarted(const TrialRow& trial,
                                   std::int64_t from_batches) {
  const StartKind kind = paused_.NoteStart(trial.id, from_batches);
  Say(Verbosity::kNormal, Tone::kPlain,
      StartedLine(info_, trial, kind, from_batches));
}

void PlainReporter::OnTraining(TrialId trial, const TrainingReport& report) {
  Say(Verbosity::kVerbose, Tone::kPlain, TrainingLine(info_, trial, report));
}

void PlainReporter::OnValidation(TrialId trial, const ValidationReport& report,
                                 bool best) {
  const bool minor = IsSearch(info_) && !best;
  Say(minor ? Verbosity::kVerbose : Verbosity::kNormal, Tone::kPlain,
      ValidationLine(info_, trial, report, best));
}

void PlainReporter::OnCheckpoint(TrialId trial, const CheckpointSaved& saved) {
  Say(Verbosity::kVerbose, Tone::kPlain, CheckpointLine(info_, trial, saved));
}

void PlainReporter::OnTrialEnded(const TrialRow& trial,
                                 const std::vector<std::string>& last_lines) {
  paused_.NoteEnd(trial);
  if (trial.state == State::kStopped && paused_.NoteStop(trial.id)) {
    ++stopped_;
    if (verbosity_ != Verbosity::kVerbose) return;
  }
  const bool failure = IsFailure(trial);
  const Verbosity least = failure ? Verbosity::kQuiet : Verbosity::kNormal;
  Tone tone = failure ? Tone::kBad : Tone::kPlain;
  for (const std::string& line : EndedLines(info_, trial, last_lines)) {
    Say(least, tone, line);
    tone = Tone::kPlain;
  }
}

void PlainReporter::End(const RunResult&) {
  if (stopped_ == 0) return;
  const bool one = stopped_ == 1;
  Say(Verbosity::kNormal, Tone::kPlain,
      std::to_string(stopped_) +
          (one ? " paused trial was" : " paused trials were") +
          " not promoted to the end, and stopped");
}

void PlainReporter::OnOutput(TrialId trial, const LogRecord& record) {
  if (!IsSaid(record.level, verbosity_)) return;
  Say(Verbosity::kQuiet, ToneOf(record.level),
      OutputLine(info_, trial, record));
}

void PlainReporter::OnCheckpointFailed(TrialId trial,
                                       const CheckpointFailed& failed) {
  OnNotice(LogLevel::kWarning, CheckpointFailedText(info_, trial, failed));
}

void PlainReporter::OnNotice(LogLevel level, const std::string& text) {
  if (!IsSaid(level, verbosity_)) return;
  Say(Verbosity::kQuiet, ToneOf(level), NoticeLine(level, text));
}

void PlainReporter::OnStatus(const RunStatus& status) {
  if (!slot_wait_.IsDue(status)) return;
  Say(Verbosity::kNormal, Tone::kPlain,
      NoticeLine(LogLevel::kInfo, status.slot_wait->ToString()));
}

void PlainReporter::Say(Verbosity least, Tone tone, const std::string& line) {
  if (verbosity_ < least) return;
  out_ << Paint(mode_, tone, line) + "\n" << std::flush;
}

std::string NoticeLine(LogLevel level, const std::string& text) {
  const bool named = level != LogLevel::kInfo;
  return "dtrain: " +
         (named ? std::string(LogLevelName(level)) + ": " : std::string()) +
         EscapeForTerminal(text);
}

Tone ToneOf(LogLevel level) {
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

bool IsSaid(LogLevel level, Verbosity verbosity) {
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

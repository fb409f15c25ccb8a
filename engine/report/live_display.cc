#include "engine/report/live_display.h"

#include <algorithm>

#include "engine/base/text.h"
#include "engine/report/event_text.h"
#include "engine/report/format.h"
#include "engine/report/live_frame.h"

namespace dtrain {
namespace {

constexpr Duration kPeriod = std::chrono::milliseconds(95);
// An estimate from less than this is a guess.
constexpr double kLeastSeconds = 2;
constexpr double kLeastProgress = 0.005;
// A trial that has its slot starts within this.
constexpr Duration kStartLimit = std::chrono::seconds(5);

constexpr char kHideCursor[] = "\x1b[?25l";
constexpr char kShowCursor[] = "\x1b[?25h";
constexpr char kEraseBelow[] = "\x1b[J";

}  // namespace

void LiveDisplay::Begin(const RunInfo& info) {
  info_ = info;
  slots_changed_ = clock_.monotonic();
  Print(Tone::kPlain, BeginLine(info));
}

void LiveDisplay::OnTrialStarted(const TrialRow& trial,
                                 std::int64_t from_batches) {
  const StartKind kind = paused_.NoteStart(trial.id, from_batches);
  // What goes as it should is seen in the frame.
  const bool usual = kind != StartKind::kResumed;
  if (usual && verbosity_ != Verbosity::kVerbose) return;
  Print(Tone::kPlain, StartedLine(info_, trial, kind, from_batches));
}

void LiveDisplay::OnTrialEnded(const TrialRow& trial,
                               const std::vector<std::string>& last_lines) {
  paused_.NoteEnd(trial);
  const bool failure = IsFailure(trial);
  // Why the only trial ended before its length would be said nowhere else.
  const bool early = !IsSearch(info_) && !trial.reason.empty() &&
                     trial.state == State::kCompleted;
  if (!failure && !early && verbosity_ != Verbosity::kVerbose) return;
  Tone tone = failure ? Tone::kBad : Tone::kPlain;
  for (const std::string& line : EndedLines(info_, trial, last_lines)) {
    Print(tone, line);
    tone = Tone::kPlain;
  }
}

void LiveDisplay::OnOutput(TrialId trial, const LogRecord& record) {
  if (!IsSaid(record.level, verbosity_)) return;
  Print(ToneOf(record.level), OutputLine(info_, trial, record));
}

void LiveDisplay::OnCheckpointFailed(TrialId trial,
                                     const CheckpointFailed& failed) {
  OnNotice(LogLevel::kWarning, CheckpointFailedText(info_, trial, failed));
}

void LiveDisplay::OnNotice(LogLevel level, const std::string& text) {
  if (!IsSaid(level, verbosity_)) return;
  Print(ToneOf(level), NoticeLine(level, text));
}

void LiveDisplay::OnStatus(const RunStatus& status) {
  const Duration now = clock_.monotonic();
  if (last_draw_ && now - *last_draw_ < kPeriod) return;
  last_draw_ = now;
  speeds_.Update(status, now);
  Draw(status);
}

void LiveDisplay::End(const RunResult&) { Erase(); }

void LiveDisplay::Print(Tone tone, const std::string& line) {
  Erase();
  out_ << Paint(mode_(), tone, line) + "\n" << std::flush;
}

void LiveDisplay::Draw(const RunStatus& status) {
  const TerminalMode mode = mode_();
  const LiveFrame frame{.info = info_,
                        .status = status,
                        .speeds = speeds_,
                        .seconds_left = SecondsLeft(status),
                        .without_slot = TrialsWithoutSlot(status)};
  const auto lines = FrameLines(frame, mode);
  // One write, so that no half of a frame is ever seen.
  std::string text = kHideCursor + EraseSequence(mode.width);
  drawn_.clear();
  for (const std::string& line : lines) {
    const Tone tone = drawn_.empty() ? Tone::kStrong : Tone::kPlain;
    text += Paint(mode, tone, line) + "\n";
    drawn_.push_back(DisplayWidth(line));
  }
  out_ << text << std::flush;
}

void LiveDisplay::Erase() {
  if (drawn_.empty()) return;
  out_ << EraseSequence(mode_().width) + kShowCursor << std::flush;
  drawn_.clear();
}

std::string LiveDisplay::EraseSequence(std::size_t width) const {
  if (drawn_.empty()) return "";
  // A terminal made narrower since has wrapped the lines.
  std::size_t rows = 0;
  for (const std::size_t drawn : drawn_) {
    rows +=
        width == 0 ? 1 : std::max<std::size_t>(1, (drawn + width - 1) / width);
  }
  return "\r\x1b[" + std::to_string(rows) + "A" + kEraseBelow;
}

std::int64_t LiveDisplay::TrialsWithoutSlot(const RunStatus& status) {
  const Duration now = clock_.monotonic();
  const std::int64_t free = status.slots - status.slots_in_use;
  if (status.slots_in_use != slots_in_use_ || status.waiting == 0) {
    slots_changed_ = now;
  }
  slots_in_use_ = status.slots_in_use;
  // A free slot that is not had for long belongs to another experiment now.
  if (now - slots_changed_ > kStartLimit) return status.waiting;
  return std::max<std::int64_t>(
      status.waiting - std::max<std::int64_t>(free, 0), 0);
}

std::optional<double> LiveDisplay::SecondsLeft(const RunStatus& status) {
  if (!first_progress_) {
    first_progress_ = status.progress;
    first_seconds_ = status.seconds;
  }
  const double gained = status.progress - *first_progress_;
  const double spent = status.seconds - first_seconds_;
  if (spent < kLeastSeconds || gained < kLeastProgress) return std::nullopt;
  return std::max(0.0, (1 - status.progress) / gained * spent);
}

}  // namespace dtrain

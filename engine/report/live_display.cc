// The live display is drawn in three steps: SpeedMeter measures the running
// trials, FrameLines makes the lines of one moment from that (pure, and fitted
// to the terminal's size), and LiveDisplay puts them in the place of the last
// ones. Lines that last, such as the end of a trial, are printed above.
//
// A frame never has more lines or columns than the terminal: a line that wraps,
// or a screen that scrolls, would leave the cursor where the next frame does
// not expect it. Where room is short, names, bars, curves and trials give way
// before numbers. Each frame is one write, which begins by moving up over the
// last one.

#include "engine/report/live_display.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>

#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/plain_reporter.h"

namespace dtrain {
namespace {

constexpr Duration kWindow = std::chrono::seconds(5);
// Minimum data for an estimate of the remaining time.
constexpr double kMinSeconds = 2;
constexpr double kMinProgress = 0.005;

}  // namespace

void SpeedMeter::Update(const RunStatus& status, Duration now) {
  std::erase_if(samples_, [&](const auto& entry) {
    return std::ranges::none_of(status.running, [&](const TrialStatus& trial) {
      return trial.id == entry.first;
    });
  });
  for (const TrialStatus& trial : status.running) {
    auto& samples = samples_[trial.id];
    // A trial that went back to a checkpoint starts a new measurement.
    if (!samples.empty() && samples.back().batches > trial.batches) {
      samples.clear();
    }
    samples.push_back({now, trial.batches});
    while (samples.size() > 2 && now - samples.front().time > kWindow) {
      samples.pop_front();
    }
  }
}

double SpeedMeter::BatchesPerSecond(TrialId trial) const {
  const auto found = samples_.find(trial);
  if (found == samples_.end()) return 0;
  const Sample& first = found->second.front();
  const Sample& last = found->second.back();
  const double seconds =
      std::chrono::duration<double>(last.time - first.time).count();
  if (seconds <= 0) return 0;
  return static_cast<double>(last.batches - first.batches) / seconds;
}

std::optional<double> RemainingTime::Update(const RunStatus& status) {
  if (!first_progress_) {
    first_progress_ = status.progress;
    first_seconds_ = status.seconds;
  }
  const double gained = status.progress - *first_progress_;
  const double spent = status.seconds - first_seconds_;
  if (spent < kMinSeconds || gained < kMinProgress) return std::nullopt;
  return std::max(0.0, (1 - status.progress) / gained * spent);
}

namespace {

constexpr std::size_t kDefaultWidth = 80;
constexpr std::size_t kDefaultHeight = 24;
constexpr std::size_t kMinWidth = 4;
constexpr std::size_t kBarWidth = 22;
constexpr std::size_t kMinBarWidth = 6;
constexpr std::size_t kNameWidth = 24;
constexpr std::size_t kMinNameWidth = 8;

std::string Fixed(const char* format, double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// "2 paused", if there is one.
void AddCount(std::int64_t count, const char* what,
              std::vector<std::string>& parts) {
  if (count > 0) parts.push_back(std::to_string(count) + " " + what);
}

// True if no trial has a slot; a line of its own reports that.
bool IsWithoutSlots(const RunStatus& status) {
  return status.slot_wait && status.running.empty();
}

// Returns the time that the run took so far and what it does.
std::string TimeText(const LiveFrame& frame) {
  const RunStatus& status = frame.status;
  std::string text = FormatSeconds(status.seconds);
  if (!frame.state.empty()) return text + "  " + frame.state;
  if (frame.seconds_left && !IsWithoutSlots(status)) {
    text += ", " + FormatSeconds(*frame.seconds_left) + " left";
  }
  if (status.trials > 1 || IsWithoutSlots(status)) return text;
  if (frame.without_slot > 0) {
    text += ", waiting for a slot";
  } else if (status.waiting > 0) {
    text += status.slots > 0 ? ", starting" : ", pending";
  }
  return text;
}

// The bar is as wide as the rest allows, and the name is cut or omitted, so
// that no number is.
std::string HeadLine(const LiveFrame& frame, std::size_t width,
                     const TerminalMode& mode) {
  const std::string head =
      "experiment " + std::to_string(frame.info.experiment);
  const std::string rest =
      "  " + FormatPercent(frame.status.progress) + "  " + TimeText(frame);
  const std::size_t numbers = DisplayWidth(head) + 1 + DisplayWidth(rest);
  const std::size_t room = width - std::min(width, numbers);
  std::string name =
      Truncate(EscapeForTerminal(frame.info.name),
               std::clamp(room, kMinNameWidth, kNameWidth), Ellipsis(mode));
  name = DisplayWidth(name) > room ? "" : " " + name;
  const std::size_t used = numbers + DisplayWidth(name);
  const std::size_t bar = std::min(kBarWidth, width - std::min(width, used));
  if (bar < kMinBarWidth) return head + name + rest;
  return head + name + "  " + ProgressBar(frame.status.progress, bar) +
         rest.substr(1);
}

std::string TrialsLine(const LiveFrame& frame) {
  const RunStatus& status = frame.status;
  const auto running = static_cast<std::int64_t>(status.running.size());
  const std::int64_t paused =
      status.trials - status.trials_ended - running - status.waiting;
  const bool slots_known = status.slots > 0;
  // Slots first: the rest may be truncated.
  std::vector<std::string> parts = {std::to_string(running) + " running"};
  if (slots_known) {
    parts.back() += " on " + std::to_string(status.slots_in_use) + "/" +
                    std::to_string(status.slots) + " slots";
  }
  AddCount(status.trials_ended, "ended", parts);
  AddCount(status.waiting - frame.without_slot,
           slots_known ? "starting" : "pending", parts);
  AddCount(paused, "paused", parts);
  AddCount(frame.without_slot, "waiting for a slot", parts);
  return "  trials  " + Join(parts, ", ");
}

std::string RungsLine(const LiveFrame& frame, std::size_t width, bool utf8) {
  const auto& rungs = frame.status.rungs;
  std::string line = "  rungs   ";
  const Unit unit = rungs.front().length.unit;
  if (unit != Unit::kBatches) line += "in " + std::string(UnitName(unit)) + " ";
  const std::size_t used = DisplayWidth(line);
  return line + RungsText(rungs, width > used ? width - used : 0, utf8);
}

}  // namespace

namespace {

// Returns "  epoch 1.25"; empty if it is unknown or what is counted.
std::string EpochText(const LiveFrame& frame, const TrialStatus& trial) {
  if (trial.batches_per_epoch == 0 ||
      frame.info.units.counted == Unit::kEpochs) {
    return "";
  }
  return "  epoch " +
         Fixed("%.2f", static_cast<double>(trial.batches) /
                           static_cast<double>(trial.batches_per_epoch));
}

}  // namespace

std::string BatchText(const LiveFrame& frame, const TrialStatus& trial) {
  const auto& [searched, counted, records] = frame.info.units;
  std::string text = searched == Unit::kEpochs ? EpochText(frame, trial) : "";
  text += "  " + PositionText({.batches = trial.batches},
                              {.searched = counted, .counted = counted});
  if (trial.total_batches > 0) {
    text += "/" + std::to_string(trial.total_batches);
  }
  const double speed = frame.speeds.BatchesPerSecond(trial.id);
  if (speed > 0)
    text += "  " + Fixed(speed < 10 ? "%.1f" : "%.0f", speed) + "/s";
  if (trial.batches == 0 && speed == 0) text += "  starting";
  return text;
}

namespace {

// Returns "  " and the curve of the trial's validations; empty for a single
// one.
std::string Curve(const LiveFrame& frame, const TrialStatus& trial, bool utf8) {
  if (!frame.history) return "";
  const std::vector<double> values = frame.history(trial.id);
  if (values.size() < 2) return "";
  const std::string curve = Sparkline(values, kSparkWidth, utf8);
  return curve.empty() ? "" : "  " + curve;
}

bool Fits(const std::string& line, const std::string& more, std::size_t width) {
  return DisplayWidth(line) + DisplayWidth(more) <= width;
}

std::string TrialLine(const LiveFrame& frame, const TrialStatus& trial,
                      std::size_t width, bool utf8) {
  std::string line = "  " + ToString(trial.id);
  if (frame.info.units.searched != Unit::kEpochs) {
    line += EpochText(frame, trial);
  }
  line += BatchText(frame, trial);
  if (!trial.training.empty()) {
    line += "  training: " + FormatMetrics(trial.training);
  }
  if (!trial.validation.empty()) {
    line += "  validation: " + FormatMetrics(trial.validation);
  }
  const std::string curve = Curve(frame, trial, utf8);
  return Fits(line, curve, width) ? line + curve : line;
}

// The line of a trial in a search: what distinguishes it from the others.
std::string SearchTrialLine(const LiveFrame& frame, const TrialStatus& trial,
                            std::size_t width, bool utf8) {
  std::string line = "  " + ToString(trial.id) + BatchText(frame, trial);
  for (const auto& [name, value] : trial.validation) {
    if (name != frame.info.metric) continue;
    line += "  " + name + " " + FormatMetric(value);
  }
  const std::string hparams =
      "  " + FormatHparamsBriefly(
                 SearchedHparams(frame.info.hyperparameters, trial.hparams));
  const std::string curve = Curve(frame, trial, utf8);
  if (Fits(line, curve + hparams, width)) line += curve;
  line += hparams;
  if (trial.training.empty()) return line;
  return line + "  training: " + FormatMetrics(trial.training);
}

std::string BestLine(const LiveFrame& frame, std::size_t width) {
  const RunStatus& status = frame.status;
  const bool search = status.trials > 1;
  const std::string label = search ? "  best    " : "  best  ";
  if (!status.best) {
    // There may be no validation set, and then no validation.
    return label + "no validation of " + frame.info.metric + " so far";
  }
  std::string line =
      label + ToString(TrialId{frame.info.experiment, status.best_trial}) +
      "  " + frame.info.metric + " " +
      FormatBest(status.best, frame.info.units);
  if (!search) return line;
  const auto& space = frame.info.hyperparameters;
  line +=
      "  " + FormatHparamsBriefly(SearchedHparams(space, status.best_hparams));
  const std::string constants =
      FormatHparamsBriefly(ConstantHparams(space, status.best_hparams));
  const std::string whole = line + " " + constants;
  return constants.empty() || DisplayWidth(whole) > width ? line : whole;
}

// Adds lines for running trials, at most `room`.
void AddTrialLines(const LiveFrame& frame, const TerminalMode& mode,
                   std::size_t width, std::size_t room,
                   std::vector<std::string>& lines) {
  const auto& running = frame.status.running;
  const bool all = running.size() <= room;
  const std::size_t shown =
      all ? running.size() : std::max<std::size_t>(room, 1) - 1;
  for (std::size_t i = 0; i < shown; ++i) {
    lines.push_back(frame.status.trials > 1
                        ? SearchTrialLine(frame, running[i], width, mode.utf8)
                        : TrialLine(frame, running[i], width, mode.utf8));
  }
  if (all || room == 0) return;
  lines.push_back("  " + std::string(Ellipsis(mode)) + " and " +
                  std::to_string(running.size() - shown) + " more trials");
}

// Returns a rung in words or as "12+2".
std::string RungText(const RungStatus& rung, bool wordy) {
  const std::string length = std::to_string(rung.length.count) + ": ";
  const std::string done = std::to_string(rung.done);
  const std::string running = std::to_string(rung.running);
  if (!wordy) return length + done + (rung.running > 0 ? "+" + running : "");
  std::vector<std::string> parts;
  AddCount(rung.done, "done", parts);
  AddCount(rung.running, "running", parts);
  return length + (parts.empty() ? "-" : Join(parts, ", "));
}

std::string JoinRungs(std::span<const RungStatus> rungs, bool wordy,
                      bool utf8) {
  std::vector<std::string> parts;
  for (const RungStatus& rung : rungs) parts.push_back(RungText(rung, wordy));
  return Join(parts, utf8 ? " · " : " | ");
}

}  // namespace

std::string RungsText(const std::vector<RungStatus>& rungs, std::size_t width,
                      bool utf8) {
  std::string text = JoinRungs(rungs, /*wordy=*/true, utf8);
  if (DisplayWidth(text) <= width) return text;
  text = JoinRungs(rungs, /*wordy=*/false, utf8);
  for (std::size_t first = 1;
       first < rungs.size() && DisplayWidth(text) > width; ++first) {
    text = (utf8 ? "… · " : "... | ") +
           JoinRungs(std::span(rungs).subspan(first), /*wordy=*/false, utf8);
  }
  return text;
}

std::string ProgressBar(double progress, std::size_t width) {
  const std::size_t inner = width - 2;
  const double share = std::isfinite(progress) ? progress : 0;
  const auto full = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) *
                                             static_cast<double>(inner));
  return "[" + std::string(full, '#') + std::string(inner - full, '.') + "]";
}

namespace {

std::vector<std::string> FormatFrame(const LiveFrame& frame,
                                     const TerminalMode& mode,
                                     bool with_trials) {
  // A line as wide as the terminal would wrap on some terminals, and the cursor
  // is below the last one.
  const std::size_t width =
      std::max(mode.width > 0 ? mode.width : kDefaultWidth, kMinWidth) - 1;
  const std::size_t height =
      std::max<std::size_t>(mode.height > 0 ? mode.height : kDefaultHeight, 2) -
      1;
  std::vector<std::string> lines = {HeadLine(frame, width, mode)};
  if (frame.status.trials > 1) lines.push_back(TrialsLine(frame));
  if (!frame.workers.empty()) lines.push_back("  workers " + frame.workers);
  if (IsWithoutSlots(frame.status)) {
    lines.push_back("  " + frame.status.slot_wait->ToString());
  }
  if (!frame.status.rungs.empty()) {
    lines.push_back(RungsLine(frame, width, mode.utf8));
  }
  const std::size_t used = lines.size() + 1;
  if (with_trials) {
    AddTrialLines(frame, mode, width, height > used ? height - used : 0, lines);
  }
  lines.push_back(BestLine(frame, width));
  if (lines.size() > height) lines.resize(height);
  for (std::string& line : lines) {
    line = WholeWords(EscapeForTerminal(line), width, mode);
  }
  return lines;
}

}  // namespace

std::string WholeWords(const std::string& text, std::size_t width,
                       const TerminalMode& mode) {
  if (DisplayWidth(text) <= width) return text;
  std::string line;
  const std::size_t sign = DisplayWidth(Ellipsis(mode));
  for (const std::string& word : Split(text, ' ')) {
    if (DisplayWidth(line) + DisplayWidth(word) + 1 + sign > width) break;
    line += word + " ";
  }
  return line.find_first_not_of(' ') == line.npos
             ? Truncate(text, width, Ellipsis(mode))
             : line + std::string(Ellipsis(mode));
}

std::vector<std::string> RunLines(const LiveFrame& frame,
                                  const TerminalMode& mode) {
  return FormatFrame(frame, mode, /*with_trials=*/false);
}

std::vector<std::string> FrameLines(const LiveFrame& frame,
                                    const TerminalMode& mode) {
  return FormatFrame(frame, mode, /*with_trials=*/true);
}

std::vector<std::string> StackedLines(const std::vector<LiveFrame>& frames,
                                      const TerminalMode& mode) {
  std::size_t height =
      std::max<std::size_t>(mode.height > 0 ? mode.height : kDefaultHeight, 2) -
      1;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const std::size_t left = frames.size() - i;
    if (height == 1 && left > 1) {
      lines.push_back(Truncate(std::string(Ellipsis(mode)) + " and " +
                                   std::to_string(left) + " more experiments",
                               std::max(mode.width, kMinWidth) - 1,
                               Ellipsis(mode)));
      break;
    }
    TerminalMode part = mode;
    part.height = std::max<std::size_t>(height / left, 1) + 1;
    for (std::string& line : FrameLines(frames[i], part)) {
      lines.push_back(std::move(line));
      --height;
    }
  }
  return lines;
}

namespace {

constexpr Duration kPeriod = std::chrono::milliseconds(95);

constexpr char kHideCursor[] = "\x1b[?25l";
constexpr char kShowCursor[] = "\x1b[?25h";
constexpr char kEraseBelow[] = "\x1b[J";

// Time within which a trial with a slot starts.
constexpr Duration kStartLimit = std::chrono::seconds(5);

}  // namespace

void RedrawnLines::Draw(const std::vector<std::string>& lines) {
  const TerminalMode mode = mode_();
  // One write, so that no partial frame is visible.
  std::string text = kHideCursor + EraseSequence(mode.width);
  drawn_.clear();
  for (const std::string& line : lines) {
    const Tone tone = drawn_.empty() ? Tone::kStrong : Tone::kPlain;
    text += Paint(mode, tone, line) + "\n";
    drawn_.push_back(DisplayWidth(line));
  }
  out_ << text << std::flush;
}

void RedrawnLines::Erase() {
  if (drawn_.empty()) return;
  out_ << EraseSequence(mode_().width) + kShowCursor << std::flush;
  drawn_.clear();
}

std::string RedrawnLines::EraseSequence(std::size_t width) const {
  if (drawn_.empty()) return "";
  // A terminal that became narrower has wrapped the lines.
  std::size_t rows = 0;
  for (const std::size_t drawn : drawn_) {
    rows +=
        width == 0 ? 1 : std::max<std::size_t>(1, (drawn + width - 1) / width);
  }
  return "\r\x1b[" + std::to_string(rows) + "A" + kEraseBelow;
}

void LiveDisplay::Begin(const RunInfo& info) {
  info_ = info;
  slots_changed_ = clock_.monotonic();
  Print(Tone::kPlain, BeginLine(info));
}

void LiveDisplay::OnTrialStarted(const TrialRow& trial,
                                 const ReportedAt& from) {
  const StartKind kind = paused_.RecordStart(trial.id, from);
  if (from.batches == 0) histories_.erase(trial.id);
  // Normal starts are visible in the frame.
  const bool usual = kind != StartKind::kResumed;
  if (usual && verbosity_ != Verbosity::kVerbose) return;
  Print(Tone::kPlain, StartedLine(info_, trial, kind, from));
}

void LiveDisplay::OnTraining(TrialId trial, const TrainingReport& report) {
  reports_.Update(trial, {report.batches, report.epoch});
}

void LiveDisplay::OnCheckpoint(TrialId trial, const CheckpointSaved& saved) {
  reports_.Update(trial, {saved.batches, saved.epoch});
}

void LiveDisplay::OnValidation(TrialId trial, const ValidationReport& report,
                               bool) {
  reports_.Update(trial, {report.batches, report.epoch});
  for (const auto& [name, value] : report.metrics) {
    if (name == info_.metric) histories_[trial].push_back(value);
  }
}

void LiveDisplay::OnTrialEnded(const TrialRow& trial,
                               const std::vector<std::string>& last_lines) {
  paused_.RecordEnd(trial);
  if (IsFinal(trial.state)) histories_.erase(trial.id);
  const bool failure = IsFailure(trial);
  // These reasons, an early end of the only trial among them, are reported
  // nowhere else.
  const bool early = trial.state == State::kInvalid ||
                     (!IsSearch(info_) && !trial.reason.empty() &&
                      trial.state == State::kCompleted);
  if (!failure && !early && verbosity_ != Verbosity::kVerbose) return;
  const auto lines = EndedLines(info_, trial, last_lines,
                                reports_.Find(trial.id, trial.at()).epoch);
  for (const std::string& line : lines) {
    const bool is_log = &line != &lines.front();
    Print(failure && !is_log ? Tone::kBad : Tone::kPlain, line,
          /*wrap=*/!is_log);
  }
}

void LiveDisplay::OnOutput(TrialId trial, const LogRecord& record) {
  if (!IsVisible(record.level, verbosity_)) return;
  Print(ChooseTone(record.level), OutputLine(info_, trial, record),
        /*wrap=*/false);
}

void LiveDisplay::OnCheckpointFailed(TrialId trial,
                                     const CheckpointFailed& failed) {
  OnNotice(
      LogLevel::kWarning,
      CheckpointFailedText(info_, trial, failed,
                           reports_.Find(trial, {.batches = failed.batches})));
}

void LiveDisplay::OnNotice(LogLevel level, const std::string& text) {
  if (!IsVisible(level, verbosity_)) return;
  Print(ChooseTone(level), NoticeLine(level, text));
}

void LiveDisplay::OnStatus(const RunStatus& status) {
  const Duration now = clock_.monotonic();
  if (last_draw_ && now - *last_draw_ < kPeriod) return;
  last_draw_ = now;
  speeds_.Update(status, now);
  Draw(status);
}

void LiveDisplay::Print(Tone tone, const std::string& line, bool wrap) {
  lines_.Erase();
  const TerminalMode mode = lines_.mode();
  lines_.out() << Paint(mode, tone,
                        wrap ? WrapText(line, 0, kWrapIndent, mode.width)
                             : line) +
                      "\n"
               << std::flush;
}

void LiveDisplay::Draw(const RunStatus& status) {
  const auto history = [this](TrialId trial) {
    const auto found = histories_.find(trial);
    return found == histories_.end() ? std::vector<double>() : found->second;
  };
  lines_.Draw(FrameLines({.info = info_,
                          .status = status,
                          .speeds = speeds_,
                          .seconds_left = remaining_.Update(status),
                          .without_slot = TrialsWithoutSlot(status),
                          .history = history,
                          .workers = workers_},
                         lines_.mode()));
}

std::int64_t LiveDisplay::TrialsWithoutSlot(const RunStatus& status) {
  const Duration now = clock_.monotonic();
  const std::int64_t free = status.slots - status.slots_in_use;
  if (status.slots_in_use != slots_in_use_ || status.waiting == 0) {
    slots_changed_ = now;
  }
  slots_in_use_ = status.slots_in_use;
  // A slot that stays free for long is used by another experiment.
  if (now - slots_changed_ > kStartLimit) return status.waiting;
  return std::max<std::int64_t>(
      status.waiting - std::max<std::int64_t>(free, 0), 0);
}

}  // namespace dtrain

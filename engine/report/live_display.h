#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/report/plain_reporter.h"
#include "engine/report/terminal.h"
#include "engine/run/reporter.h"

namespace dtrain {

/// Speed of each running trial over the last few seconds. Pure.
class SpeedMeter {
 public:
  /// Records the positions of the running trials; forgets all others.
  void Update(const RunStatus& status, Duration now);

  /// Returns batches a second; 0 while it is unknown.
  double BatchesPerSecond(TrialId trial) const;

 private:
  struct Sample {
    Duration time{0};
    std::int64_t batches = 0;
  };
  std::map<TrialId, std::deque<Sample>> samples_;
};

/// Estimate of the remaining time of a run from its progress so far. Pure.
class RemainingTime {
 public:
  /// Returns the seconds that are left; nothing before there is a trend.
  std::optional<double> Update(const RunStatus& status);

 private:
  std::optional<double> first_progress_;
  double first_seconds_ = 0;
};

/// Content of the live display at one moment, before it is fitted to a
/// terminal.
struct LiveFrame {
  const RunInfo& info;
  const RunStatus& status;
  const SpeedMeter& speeds;
  std::optional<double> seconds_left = std::nullopt;
  /// Number of `status.waiting` without a slot; the others are starting.
  std::int64_t without_slot = 0;
  /// Returns the searcher's metric at the validations of a trial; may be null.
  std::function<std::vector<double>(TrialId trial)> history = nullptr;
  /// State of an experiment that does not run; else empty.
  std::string state = "";
  /// Summary of an elastic experiment's workers and jobs; else empty.
  std::string workers = "";
};

/// Returns "  batch 500/1000  12/s" for a running trial.
std::string BatchText(const LiveFrame& frame, const TrialStatus& trial);

/// Returns the lines of FrameLines without running trials. Pure.
std::vector<std::string> RunLines(const LiveFrame& frame,
                                  const TerminalMode& mode);

/// Returns the lines of the frame, each escaped and narrower than the terminal,
/// and no more than fit on it: the experiment; for a search its trials and
/// rungs; the running trials; the best so far. Pure.
std::vector<std::string> FrameLines(const LiveFrame& frame,
                                    const TerminalMode& mode);

/// Returns the lines of several frames, one below the other: at least the first
/// line of each, if the terminal is high enough. Pure.
std::vector<std::string> StackedLines(const std::vector<LiveFrame>& frames,
                                      const TerminalMode& mode);

/// "100: 12 done, 2 running · 300: 4 done", as wordy as `width` allows; where
/// nothing else helps, without the shortest lengths. Without `utf8` in ASCII:
/// "100: 12 done | 300: 4 done".
std::string RungsText(const std::vector<RungStatus>& rungs, std::size_t width,
                      bool utf8);

/// Returns the words that fit `width`, and the sign of a cut if not all do: a
/// part of a number would be believed. A longer first word is cut.
std::string WholeWords(const std::string& text, std::size_t width,
                       const TerminalMode& mode);

/// "[#####.....]" of `width` columns in all. REQUIRES: width ≥ 3.
std::string ProgressBar(double progress, std::size_t width);

/// Lines at the end of a terminal's output that are drawn again in place. Gives
/// the cursor back when it is destroyed.
class RedrawnLines {
 public:
  /// `mode` is asked before each drawing, so that a resize is seen.
  RedrawnLines(std::ostream& out, std::function<TerminalMode()> mode)
      : out_(out), mode_(std::move(mode)) {}
  RedrawnLines(const RedrawnLines&) = delete;
  RedrawnLines& operator=(const RedrawnLines&) = delete;
  ~RedrawnLines() { Erase(); }

  /// Replaces the lines. REQUIRES: each is narrower than the terminal.
  void Draw(const std::vector<std::string>& lines);
  void Erase();
  TerminalMode mode() const { return mode_(); }
  std::ostream& out() const { return out_; }

 private:
  std::string EraseSequence(std::size_t width) const;

  std::ostream& out_;
  std::function<TerminalMode()> mode_;
  std::vector<std::size_t> drawn_;  // widths of the lines on the screen
};

/// Draws the state of a run on a terminal, again and again in the same place,
/// at most ten times a second; what is worth keeping is printed above. Leaves
/// no trace of itself and gives the cursor back when it ends or is destroyed.
class LiveDisplay : public Reporter {
 public:
  /// `mode` is asked before each drawing, so that a resize is seen.
  LiveDisplay(std::ostream& out, std::function<TerminalMode()> mode,
              Verbosity verbosity, Clock clock)
      : lines_(out, std::move(mode)),
        verbosity_(verbosity),
        clock_(std::move(clock)) {}

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
  void OnWorkers(const std::string& summary) override { workers_ = summary; }
  void OnStatus(const RunStatus& status) override;
  void End(const RunResult&) override { lines_.Erase(); }

 private:
  // `wrap`: between words; not what programs print.
  void Print(Tone tone, const std::string& line, bool wrap = true);
  void Draw(const RunStatus& status);
  std::int64_t TrialsWithoutSlot(const RunStatus& status);

  RedrawnLines lines_;
  Verbosity verbosity_;
  Clock clock_;
  RunInfo info_;
  std::string workers_;  // as in LiveFrame
  SpeedMeter speeds_;
  PausedTrials paused_;
  LastReports reports_;
  // The searcher's metric at the validations of each trial that runs.
  std::map<TrialId, std::vector<double>> histories_;
  std::optional<Duration> last_draw_;
  RemainingTime remaining_;
  std::int64_t slots_in_use_ = 0;
  Duration slots_changed_{0};  // when a trial got or left its slot last
};

}  // namespace dtrain

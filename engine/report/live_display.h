#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/report/plain_reporter.h"
#include "engine/report/speed_meter.h"
#include "engine/run/reporter.h"

namespace dtrain {

/// Draws the state of a run on a terminal, again and again in the same place,
/// at most ten times a second; what is worth keeping is printed above. Leaves
/// no trace of itself and gives the cursor back when it ends or is destroyed.
class LiveDisplay : public Reporter {
 public:
  /// `mode` is asked before each drawing, so that a resize is seen.
  LiveDisplay(std::ostream& out, std::function<TerminalMode()> mode,
              Verbosity verbosity, Clock clock)
      : out_(out),
        mode_(std::move(mode)),
        verbosity_(verbosity),
        clock_(std::move(clock)) {}
  LiveDisplay(const LiveDisplay&) = delete;
  LiveDisplay& operator=(const LiveDisplay&) = delete;
  ~LiveDisplay() override { Erase(); }

  void Begin(const RunInfo& info) override;
  void OnCounted(Unit unit) override { info_.counted = unit; }
  void OnTrialStarted(const TrialRow& trial,
                      std::int64_t from_batches) override;
  void OnTrialEnded(const TrialRow& trial,
                    const std::vector<std::string>& last_lines) override;
  void OnOutput(TrialId trial, const LogRecord& record) override;
  void OnCheckpointFailed(TrialId trial,
                          const CheckpointFailed& failed) override;
  void OnNotice(LogLevel level, const std::string& text) override;
  void OnStatus(const RunStatus& status) override;
  void End(const RunResult& result) override;

 private:
  void Print(Tone tone, const std::string& line);
  void Draw(const RunStatus& status);
  void Erase();
  std::string EraseSequence(std::size_t width) const;
  std::optional<double> SecondsLeft(const RunStatus& status);
  std::int64_t TrialsWithoutSlot(const RunStatus& status);

  std::ostream& out_;
  std::function<TerminalMode()> mode_;
  Verbosity verbosity_;
  Clock clock_;
  RunInfo info_;
  SpeedMeter speeds_;
  PausedTrials paused_;
  std::vector<std::size_t> drawn_;  // widths of the lines on the screen
  std::optional<Duration> last_draw_;
  std::optional<double> first_progress_;
  double first_seconds_ = 0;
  std::int64_t slots_in_use_ = 0;
  Duration slots_changed_{0};  // when a trial got or left its slot last
};

}  // namespace dtrain

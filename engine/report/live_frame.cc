#include "engine/report/live_frame.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

constexpr std::size_t kDefaultWidth = 80;
constexpr std::size_t kDefaultHeight = 24;
constexpr std::size_t kBarWidth = 22;
constexpr std::size_t kNameWidth = 24;
// The frame's other lines, and one for the cursor.
constexpr std::size_t kOtherLines = 4;

std::string Fixed(const char* format, double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string HeadLine(const LiveFrame& frame) {
  const RunStatus& status = frame.status;
  std::string line = "experiment " + std::to_string(frame.info.experiment) +
                     " " + Truncate(frame.info.name, kNameWidth) + "  " +
                     ProgressBar(status.progress, kBarWidth) + " " +
                     FormatPercent(status.progress) + "  " +
                     FormatSeconds(status.seconds);
  if (frame.seconds_left) {
    line += ", " + FormatSeconds(*frame.seconds_left) + " left";
  }
  if (status.trials > 1) {
    line += ", trials " + std::to_string(status.trials_ended) + "/" +
            std::to_string(status.trials);
  }
  if (status.waiting > 0) {
    line += ", " + std::to_string(status.waiting) + " waiting for a slot";
  }
  return line;
}

std::string TrialLine(const LiveFrame& frame, const TrialStatus& trial) {
  std::string line = "  " + ToString(trial.id);
  if (trial.batches_per_epoch > 0) {
    line += "  epoch " +
            Fixed("%.2f", static_cast<double>(trial.batches) /
                              static_cast<double>(trial.batches_per_epoch));
  }
  line += "  batch " + std::to_string(trial.batches);
  if (trial.total_batches > 0) {
    line += "/" + std::to_string(trial.total_batches);
  }
  const double speed = frame.speeds.BatchesPerSecond(trial.id);
  if (speed > 0) {
    line += "  " + Fixed(speed < 10 ? "%.1f" : "%.0f", speed) + "/s";
  }
  if (trial.batches == 0 && speed == 0) line += "  starting";
  if (!trial.training.empty()) {
    line += "  training: " + FormatMetrics(trial.training);
  }
  if (!trial.validation.empty()) {
    line += "  validation: " + FormatMetrics(trial.validation);
  }
  return line;
}

std::string BestLine(const LiveFrame& frame) {
  const RunStatus& status = frame.status;
  if (!status.best) {
    return "  best  none yet: waits for a validation of " + frame.info.metric;
  }
  return "  best  " +
         ToString(TrialId{frame.info.experiment, status.best_trial}) + "  " +
         frame.info.metric + " " + FormatBest(status.best);
}

}  // namespace

std::string ProgressBar(double progress, std::size_t width) {
  const std::size_t inner = width - 2;
  const double share = std::isfinite(progress) ? progress : 0;
  const auto full = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) *
                                             static_cast<double>(inner));
  return "[" + std::string(full, '#') + std::string(inner - full, '.') + "]";
}

std::vector<std::string> FrameLines(const LiveFrame& frame,
                                    const TerminalMode& mode) {
  const std::size_t width = mode.width > 0 ? mode.width : kDefaultWidth;
  const std::size_t height = mode.height > 0 ? mode.height : kDefaultHeight;
  const auto& running = frame.status.running;
  const std::size_t room =
      height > kOtherLines ? height - kOtherLines : std::size_t{1};
  std::vector<std::string> lines = {HeadLine(frame)};
  for (std::size_t i = 0; i < std::min(room, running.size()); ++i) {
    lines.push_back(TrialLine(frame, running[i]));
  }
  if (running.size() > room) {
    lines.push_back("  … and " + std::to_string(running.size() - room) +
                    " more trials");
  }
  lines.push_back(BestLine(frame));
  // A line as wide as the terminal would wrap on some.
  for (std::string& line : lines) {
    line = Truncate(EscapeForTerminal(line), std::max(width, kOtherLines) - 1);
  }
  return lines;
}

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/report/speed_meter.h"
#include "engine/report/terminal.h"
#include "engine/run/reporter.h"

namespace dtrain {

/// What the live display shows at one moment, before it is fitted to a
/// terminal.
struct LiveFrame {
  const RunInfo& info;
  const RunStatus& status;
  const SpeedMeter& speeds;
  std::optional<double> seconds_left;
  /// Of `status.waiting`: those that have no slot yet. The rest are starting.
  std::int64_t without_slot = 0;
};

/// The lines of the frame, each escaped and narrower than the terminal, no more
/// than fit on it: the experiment; of a search its trials and rungs; the
/// running trials; the best so far. Pure.
std::vector<std::string> FrameLines(const LiveFrame& frame,
                                    const TerminalMode& mode);

/// "100: 12 done, 2 running · 300: 4 done", as wordy as `width` allows; where
/// nothing else helps, without the shortest lengths.
std::string RungsText(const std::vector<RungStatus>& rungs, std::size_t width);

/// "[#####.....]" of `width` columns in all. REQUIRES: width ≥ 3.
std::string ProgressBar(double progress, std::size_t width);

}  // namespace dtrain

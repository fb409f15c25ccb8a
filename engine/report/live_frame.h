#pragma once

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
};

/// The lines of the frame, each escaped and narrower than the terminal, no more
/// than fit on it: the experiment, its running trials, the best so far. Pure.
std::vector<std::string> FrameLines(const LiveFrame& frame,
                                    const TerminalMode& mode);

/// "[#####.....]" of `width` columns in all. REQUIRES: width ≥ 3.
std::string ProgressBar(double progress, std::size_t width);

}  // namespace dtrain

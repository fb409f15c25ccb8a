#pragma once

#include <array>

#include "engine/base/clock.h"
#include "engine/os/unique_fd.h"
#include "engine/process/trial_output.h"

namespace dtrain {

/// Drains what one rank of a trial prints into the trial's log, in bounded
/// memory. One thread.
class RankOutput {
 public:
  enum Stream { kStandardOutput = 0, kStandardError = 1 };

  /// `pipes` are the reading ends, which do not block. `output` must outlive
  /// this.
  RankOutput(TrialOutput& output, int rank, Clock clock,
             std::array<UniqueFd, 2> pipes);

  /// The pipe of a stream; −1 once it has ended.
  int fd(Stream stream) const { return pipes_[stream].get(); }
  bool ended() const { return !pipes_[0] && !pipes_[1]; }
  /// Reads once what is there; false at the end, when the pipe should be
  /// closed.
  [[nodiscard]] bool Drain(Stream stream);
  void Close(Stream stream);

 private:
  TrialOutput& output_;
  Clock clock_;
  std::array<UniqueFd, 2> pipes_;
  std::array<LogLineSplitter, 2> splitters_;
};

}  // namespace dtrain

#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/store/trial_log.h"

namespace dtrain {

/// The log of one trial, as its processes write it. One thread.
class TrialOutput {
 public:
  TrialOutput(std::filesystem::path log, Clock clock);

  void Append(const LogRecord& record);
  /// Adds a line of dtrain's own, among those of `rank`.
  void Note(int rank, const std::string& text);

  /// When the log is to be flushed; none if all is written.
  std::optional<Duration> flush_at() const { return flush_at_; }
  void Flush();

  /// The last lines of `rank`, oldest first.
  std::vector<std::string> LastLines(int rank) const;

 private:
  Clock clock_;
  TrialLogWriter writer_;
  std::optional<Duration> flush_at_;
  std::map<int, std::deque<std::string>> last_lines_;  // by rank
};

}  // namespace dtrain

#pragma once

#include <deque>
#include <filesystem>
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
  /// Adds a line of dtrain's own.
  void Note(const std::string& text);

  /// When the log is to be flushed; none if all is written.
  std::optional<Duration> flush_at() const { return flush_at_; }
  void Flush();

  /// The last lines, oldest first.
  std::vector<std::string> last_lines() const {
    return {last_lines_.begin(), last_lines_.end()};
  }

 private:
  Clock clock_;
  TrialLogWriter writer_;
  std::optional<Duration> flush_at_;
  std::deque<std::string> last_lines_;
};

}  // namespace dtrain

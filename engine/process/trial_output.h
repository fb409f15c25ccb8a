#pragma once

#include <array>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/unique_fd.h"
#include "engine/store/trial_log.h"

namespace dtrain {

/// Drains what one trial prints into its log, in bounded memory. One thread.
class TrialOutput {
 public:
  enum Stream { kStandardOutput = 0, kStandardError = 1 };

  /// `pipes` are the reading ends, which do not block.
  TrialOutput(std::filesystem::path log, Clock clock,
              std::array<UniqueFd, 2> pipes);

  /// The pipe of a stream; −1 once it has ended.
  int fd(Stream stream) const { return pipes_[stream].get(); }
  /// Reads once what is there; false at the end, when the pipe should be
  /// closed.
  [[nodiscard]] bool Drain(Stream stream);
  void Close(Stream stream);
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
  void Append(const LogRecord& record);

  Clock clock_;
  std::array<UniqueFd, 2> pipes_;
  std::array<LogLineSplitter, 2> splitters_;
  TrialLogWriter writer_;
  std::optional<Duration> flush_at_;
  std::deque<std::string> last_lines_;
};

}  // namespace dtrain

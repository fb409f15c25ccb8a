#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/process/failure_cause.h"
#include "engine/store/layout.h"
#include "engine/store/trial_log.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// Log of one trial, written from the output of its processes. One thread.
class TrialOutput {
 public:
  using Sink = std::function<void(const LogRecord&)>;

  TrialOutput(std::filesystem::path log, Clock clock);
  /// Passes the records to `sink` instead, for a log that is kept by another
  /// machine or object.
  TrialOutput(Sink sink, Clock clock);

  void Append(const LogRecord& record);
  /// Appends a line of dtrain itself to those of `rank`.
  void Log(int rank, const std::string& text);

  /// Time at which the log must be flushed; none if all is written.
  std::optional<Duration> flush_at() const { return flush_at_; }
  void Flush();

  /// Returns the last lines of `rank`, oldest first.
  std::vector<std::string> LastLines(int rank) const;
  /// Returns the line of what `rank` wrote to stderr that names the cause of a
  /// failure, as FailureCause finds it; empty if there is none. Lines of dtrain
  /// itself do not count.
  std::string LastErrorLine(int rank) const;

 private:
  Clock clock_;
  std::optional<TrialLogWriter> writer_;  // or:
  Sink sink_;
  std::optional<Duration> flush_at_;
  std::map<int, std::deque<std::string>> last_lines_;  // by rank
  std::map<int, FailureCause> causes_;                 // by rank
};

/// Opens the log of a trial in `layout`. Makes the directories of the log and
/// of the trial. The directory of the experiment, or the root for a trial that
/// is not recorded, must exist. Throws Error(kStore).
TrialOutput OpenTrialOutput(const TrialSpec& spec, const StoreLayout& layout,
                            Clock clock);

}  // namespace dtrain

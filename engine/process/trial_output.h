#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/store/layout.h"
#include "engine/store/trial_log.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// The log of one trial, as its processes write it. One thread.
class TrialOutput {
 public:
  using Sink = std::function<void(const LogRecord&)>;

  TrialOutput(std::filesystem::path log, Clock clock);
  /// Of a trial whose log another machine keeps, or another object here.
  TrialOutput(Sink sink, Clock clock);

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
  std::optional<TrialLogWriter> writer_;  // or:
  Sink sink_;
  std::optional<Duration> flush_at_;
  std::map<int, std::deque<std::string>> last_lines_;  // by rank
};

/// The output of a trial that goes to its log in `layout`. Makes the directory
/// of that and the trial's own; of a recorded trial that of its experiment has
/// to be there, else the root. Throws Error(kStore).
TrialOutput OpenTrialOutput(const TrialSpec& spec, const StoreLayout& layout,
                            Clock clock);

}  // namespace dtrain

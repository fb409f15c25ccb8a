#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/query/line_regex.h"
#include "engine/store/trial_log.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// Selects records of a log.
struct LogFilter {
  std::optional<LogLevel> least;
  std::optional<int> rank;
  std::optional<Timestamp> since;
  std::optional<Timestamp> until;
  std::optional<LineRegex> grep;

  bool Accepts(const LogRecord& record) const;
  /// True if every record is selected.
  bool empty() const { return !least && !rank && !since && !until && !grep; }
};

/// Parses the value of `option`, a time: RFC 3339 ("2026-11-21T07:35:44Z"; a
/// date alone and a time without an offset are UTC), or a duration ("10m", "10m
/// ago") before `now`. Throws Error(kUsage).
Timestamp ParseLogTime(const std::string& text, const std::string& option,
                       Timestamp now);

/// The log of one trial.
struct LogSource {
  TrialId trial;
  std::filesystem::path path;
  Timestamp begins{0};  // nothing in it is older
  bool grows = false;   // the trial may still write
  // Start at about this many records before the end; none: as the merger does.
  std::optional<std::int64_t> tail = std::nullopt;
};

struct MergedRecord {
  TrialId trial;
  LogRecord record;
};

/// Merges the records of many logs by time, in bounded memory. A log is opened
/// when its time comes and closed at its end, so that thousands of logs need
/// few descriptors. For one thread.
class LogMerger {
 public:
  /// `tail`: start each log at about its last `tail` records.
  explicit LogMerger(std::optional<std::int64_t> tail = std::nullopt)
      : tail_(tail) {}

  /// REQUIRES: that trial's log was not added before.
  void Add(LogSource source);
  /// Marks the trial's log as finished.
  void End(TrialId trial);

  /// Returns the oldest record not yet returned, or nothing at the present end
  /// of all logs.
  std::optional<MergedRecord> Next();
  /// Checks growing logs again: `Next` then returns what was added.
  void Refresh();

 private:
  struct Open {
    LogSource source;
    TrialLogReader reader;
    std::optional<LogRecord> head;
    bool at_end = false;
  };

  void OpenDue();
  Open* Oldest();

  std::optional<std::int64_t> tail_;
  std::list<LogSource> waiting_;  // by begin
  std::list<Open> open_;
};

}  // namespace dtrain

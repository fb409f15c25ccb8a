#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/store/trial_log.h"
#include "engine/wire/trial_spec.h"

namespace re2 {
class RE2;
}

namespace dtrain {

/// A regular expression in RE2's syntax, searched for in a line of UTF-8 in
/// time linear in its length. Every byte of a line that is no UTF-8 counts as
/// one character.
class LineRegex {
 public:
  static constexpr std::size_t kMaxPattern = 1000;  // bytes

  /// Throws Error(kUsage) for what is no expression, or too long a one.
  explicit LineRegex(const std::string& pattern);

  bool Matches(std::string_view line) const;

 private:
  std::shared_ptr<const re2::RE2> compiled_;
};

/// Which records of a log are wanted.
struct LogFilter {
  std::optional<LogLevel> least;
  std::optional<int> rank;
  std::optional<Timestamp> since;
  std::optional<LineRegex> grep;

  bool Accepts(const LogRecord& record) const;
  /// Whether every record is wanted.
  bool empty() const { return !least && !rank && !since && !grep; }
};

/// A point in time: RFC 3339 ("2026-11-21T07:35:44Z"; a date alone and a time
/// without an offset are UTC), or a duration ("10m", "10m ago") before `now`.
/// Throws Error(kUsage).
Timestamp ParseSince(const std::string& text, Timestamp now);

/// The log of one trial.
struct LogSource {
  TrialId trial;
  std::filesystem::path path;
  Timestamp begins{0};  // nothing in it is older
  bool grows = false;   // the trial may still write
  // Begin at about the last so many records; none: as the merger does.
  std::optional<std::int64_t> tail = std::nullopt;
};

struct MergedRecord {
  TrialId trial;
  LogRecord record;
};

/// Gives the records of many logs by time, in bounded memory. A log is opened
/// when its time comes and closed when it ends, so that thousands of them need
/// few descriptors. One thread.
class LogMerger {
 public:
  /// `tail`: begin each log at about its last so many records.
  explicit LogMerger(std::optional<std::int64_t> tail = std::nullopt)
      : tail_(tail) {}

  /// REQUIRES: that trial's log was not added before.
  void Add(LogSource source);
  /// The trial's log does not grow any more.
  void End(TrialId trial);

  /// The oldest record not yet given, or none at the present end of all logs.
  std::optional<MergedRecord> Next();
  /// Looks again at logs that grow: `Next` goes on with what came since.
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

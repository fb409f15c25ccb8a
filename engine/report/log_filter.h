#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/clock.h"
#include "engine/store/trial_log.h"

namespace dtrain {

/// A POSIX extended regular expression, searched for in a line. Unlike
/// std::regex it does not run out of stack on long lines.
class LineRegex {
 public:
  /// Throws Error(kUsage) for what is no expression.
  explicit LineRegex(const std::string& pattern);

  bool Matches(std::string_view line) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
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

}  // namespace dtrain

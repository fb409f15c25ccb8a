#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/clock.h"
#include "engine/store/trial_log.h"

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

}  // namespace dtrain

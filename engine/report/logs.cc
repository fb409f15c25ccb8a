// Filtering and merging the logs of trials.
//
// Each log is ordered by time, so merging needs only the next record of every
// open log. A search may have thousands of trials; a log is opened when the
// merged time reaches its begin and closed at its end. Regular expressions are
// RE2's: their time is linear in the size of a line, whatever the pattern.

#include "engine/report/logs.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <memory>
#include <utility>

#include <re2/re2.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

// Removes a fraction such as ".25" from the front of `text` and returns it.
Timestamp TakeFraction(std::string_view& text) {
  if (!text.starts_with('.')) return Timestamp(0);
  const std::size_t end =
      std::min(text.find_first_not_of("0123456789", 1), text.size());
  std::string digits(text.substr(1, end - 1));
  digits.resize(6, '0');  // microseconds
  text.remove_prefix(end);
  return Timestamp(std::stoll(digits));
}

// Parses an offset: "Z", nothing (UTC) or "+01:00".
std::optional<std::chrono::seconds> ParseOffset(std::string_view text) {
  if (text.empty() || text == "Z" || text == "z")
    return std::chrono::seconds(0);
  const auto digit = [&](std::size_t at) { return text[at] - '0'; };
  const bool valid = text.size() == 6 && (text[0] == '+' || text[0] == '-') &&
                     text[3] == ':' &&
                     text.find_first_not_of("0123456789+-:", 0) == text.npos &&
                     std::isdigit(text[1]) != 0 && std::isdigit(text[2]) != 0 &&
                     std::isdigit(text[4]) != 0 && std::isdigit(text[5]) != 0;
  if (!valid) return std::nullopt;
  const int minutes =
      (digit(1) * 10 + digit(2)) * 60 + digit(4) * 10 + digit(5);
  return std::chrono::minutes(text[0] == '-' ? -minutes : minutes);
}

// Parses a time in one of the accepted forms.
std::optional<Timestamp> ParseTime(const std::string& text) {
  for (const char* form : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dt%H:%M:%S",
                           "%Y-%m-%d %H:%M:%S", "%Y-%m-%d"}) {
    std::tm time{};
    const char* end = strptime(text.c_str(), form, &time);
    if (end == nullptr) continue;
    std::string_view rest = end;
    const Timestamp fraction = TakeFraction(rest);
    const auto offset = ParseOffset(rest);
    if (!offset) continue;
    return std::chrono::seconds(timegm(&time)) + fraction - *offset;
  }
  return std::nullopt;
}

}  // namespace

LineRegex::LineRegex(const std::string& pattern) {
  if (pattern.size() > kMaxPattern) {
    throw Error(ErrorKind::kUsage,
                "--grep: the expression has " + std::to_string(pattern.size()) +
                    " bytes; the maximum is " + std::to_string(kMaxPattern));
  }
  RE2::Options options;
  options.set_log_errors(false);
  const auto compiled = std::make_shared<const RE2>(pattern, options);
  if (!compiled->ok()) {
    throw Error(ErrorKind::kUsage, "--grep: '" + pattern +
                                       "': " + compiled->error() +
                                       "; use RE2 syntax "
                                       "(docs/cli/inspect.md)");
  }
  compiled_ = compiled;
}

bool LineRegex::Matches(std::string_view line) const {
  const auto finds = [&](std::string_view text) {
    return RE2::PartialMatch({text.data(), text.size()}, *compiled_);
  };
  return IsValidUtf8(line) ? finds(line) : finds(ToValidUtf8(line));
}

bool LogFilter::Accepts(const LogRecord& record) const {
  return (!least || record.level >= *least) &&
         (!rank || record.rank == *rank) && (!since || record.time >= *since) &&
         (!grep || grep->Matches(record.text));
}

Timestamp ParseSince(const std::string& text, Timestamp now) {
  if (const auto time = ParseTime(text)) return *time;
  constexpr std::string_view kAgo = " ago";
  std::string_view duration = text;
  if (duration.ends_with(kAgo)) duration.remove_suffix(kAgo.size());
  try {
    return now - std::chrono::duration_cast<Timestamp>(
                     ParseDuration(duration, "--since"));
  } catch (const Error&) {
    throw Error(ErrorKind::kUsage,
                "--since: '" + text +
                    "' is neither a time nor a duration; write 10m, 2h or "
                    "2026-11-21T07:35:44Z");
  }
}

void LogMerger::Add(LogSource source) {
  const auto later = std::ranges::find_if(
      waiting_, [&](const LogSource& s) { return s.begins > source.begins; });
  waiting_.insert(later, std::move(source));
}

void LogMerger::End(TrialId trial) {
  for (LogSource& source : waiting_) {
    if (source.trial == trial) source.grows = false;
  }
  for (Open& open : open_) {
    if (open.source.trial == trial) open.source.grows = false;
  }
}

std::optional<MergedRecord> LogMerger::Next() {
  while (true) {
    Open* oldest = Oldest();
    const bool due =
        !waiting_.empty() &&
        (oldest == nullptr || waiting_.front().begins <= oldest->head->time);
    if (due) {
      OpenDue();
      continue;
    }
    if (oldest == nullptr) return std::nullopt;
    return MergedRecord{oldest->source.trial,
                        *std::exchange(oldest->head, std::nullopt)};
  }
}

void LogMerger::Refresh() {
  for (Open& open : open_) open.at_end = false;
}

// Opens the log that starts first.
void LogMerger::OpenDue() {
  LogSource source = std::move(waiting_.front());
  waiting_.pop_front();
  TrialLogReader reader(source.path);
  const auto tail = source.tail ? source.tail : tail_;
  if (tail) reader.SeekToTail(*tail);
  open_.push_back({.source = std::move(source),
                   .reader = std::move(reader),
                   .head = std::nullopt});
}

// Reads the next record of each log, closes logs that have ended, and returns
// the log with the oldest record, or null.
LogMerger::Open* LogMerger::Oldest() {
  Open* oldest = nullptr;
  for (auto open = open_.begin(); open != open_.end();) {
    if (!open->head && !open->at_end) {
      open->head = open->reader.Next();
      open->at_end = !open->head;
    }
    if (!open->head && !open->source.grows) {
      open = open_.erase(open);
      continue;
    }
    const bool older = open->head && (oldest == nullptr ||
                                      open->head->time < oldest->head->time);
    if (older) oldest = &*open;
    ++open;
  }
  return oldest;
}

}  // namespace dtrain

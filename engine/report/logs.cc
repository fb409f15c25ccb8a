// Filtering and merging the logs of trials.
//
// Each log is ordered by time, so merging needs only the next record of every
// open log. A search may have thousands of trials; a log is opened when the
// merged time reaches its begin and closed at its end.

#include "engine/report/logs.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
bool LogFilter::Accepts(const LogRecord& record) const {
  return (!least || record.level >= *least) &&
         (!rank || record.rank == *rank) && (!since || record.time >= *since) &&
         (!until || record.time <= *until) &&
         (!grep || grep->Matches(record.text));
}

Timestamp ParseLogTime(const std::string& text, const std::string& option,
                       Timestamp now) {
  if (const auto time = ParseTimestamp(text)) return *time;
  constexpr std::string_view kAgo = " ago";
  std::string_view duration = text;
  if (duration.ends_with(kAgo)) duration.remove_suffix(kAgo.size());
  try {
    return now - std::chrono::duration_cast<Timestamp>(
                     ParseDuration(duration, option));
  } catch (const Error&) {
    throw Error(ErrorKind::kUsage,
                option + ": '" + text +
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

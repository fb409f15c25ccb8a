#include "engine/report/log_merger.h"

#include <algorithm>
#include <utility>

namespace dtrain {

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

// Opens the log that begins first.
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

// Fills the heads, closes what has ended, and gives the log whose head is the
// oldest, or null.
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

#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <optional>
#include <vector>

#include "engine/base/clock.h"
#include "engine/store/trial_log.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

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

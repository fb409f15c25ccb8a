#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/base/length.h"
#include "engine/os/line_reader.h"
#include "engine/os/unique_fd.h"
#include "engine/wire/message.h"

namespace dtrain {

/// One line of a program, without its newline.
struct ReportLine {
  std::string text;
  bool too_long = false;  // discarded; `text` is its beginning
};

/// Reads a program's reports line by line. A line that is too long is discarded
/// to its end, and marked. Unlike LineReader, it owns its descriptor, the last
/// line needs no newline, and an unreadable stream counts as ended, since a
/// program may do anything to it. One thread.
class ReportLines {
 public:
  static constexpr std::size_t kMaxLine = std::size_t{1} << 20;

  /// Reads `fd`, which it makes non-blocking.
  explicit ReportLines(UniqueFd fd, std::size_t max_line = kMaxLine);

  int fd() const { return fd_.get(); }
  /// True if the stream is a socket whose other end has left something of what
  /// was sent there unread.
  bool HasUnread() const;

  /// Reads what is available, at most 64 KiB. False at the end of the stream,
  /// or if it cannot be read; text after the last newline is then a line too.
  /// Call `Next` until it returns nothing before the next `Fill`.
  [[nodiscard]] bool Fill();

  std::optional<ReportLine> Next();

 private:
  UniqueFd fd_;
  LineSplitter lines_;
  bool ended_ = false;
  bool reset_ = false;  // the other end was closed with something unread
};

/// Position that a program reports.
struct ProgramPoint {
  Unit unit = Unit::kBatches;  // what `count` counts
  double count = 0;
  std::int64_t batches = 0;  // position in the record
  double epoch = 0;
};

// The reports of docs/protocol.md, a line each.

struct ProgramTraining {
  ProgramPoint point;
  MetricValues metrics;
};
struct ProgramValidation {
  ProgramPoint point;
  MetricValues metrics;
};
struct ProgramCheckpoint {
  ProgramPoint point;
  std::string path;                        // a file or a directory
  std::optional<MetricValues> validation;  // of the same count
};
struct ProgramProgress {
  ProgramPoint point;
};
/// Reason of a program to end: kUserStop, kInvalidHp, kRefused ("fatal")
/// or kError.
struct ProgramEnd {
  EndReason reason = EndReason::kUserStop;
  std::string message;
};

/// Hyperparameters that the program has not used.
struct ProgramUnread {
  std::vector<std::string> names;
};

/// The program has read the order to stop, and follows it.
struct ProgramStopping {};

using ProgramReport =
    std::variant<ProgramTraining, ProgramValidation, ProgramCheckpoint,
                 ProgramProgress, ProgramEnd, ProgramUnread, ProgramStopping>;

/// Meaning of a program's counts.
struct ProgramUnits {
  Unit unit = Unit::kBatches;          // of the search's lengths
  bool planned = true;                 // false: there is no length
  bool is_open = false;                // the unit is that of the first report
  std::int64_t records_per_epoch = 0;  // 0: not known
};

/// Returns the JSON object in a line, in which NaN and infinities may be bare
/// words as Python writes them; they become strings. Throws Error(kFailed).
nlohmann::json ParseJsonLine(std::string_view line);

/// Parses one line. Throws Error(kFailed) that says what is wrong with it, and
/// nothing else, whatever the line holds.
ProgramReport ParseProgramReport(std::string_view line,
                                 const ProgramUnits& units);

/// Returns the rank in the first line of a connection to the socket,
/// `{"type": "hello", "rank": 0}`; empty if the line is something else. Throws
/// Error(kFailed) for an invalid rank.
std::optional<std::int64_t> ParseHello(std::string_view line);

/// Limit of the reports that are recorded of a program: `burst` at once, and
/// `per_second` in the long run. One thread.
class ReportRate {
 public:
  explicit ReportRate(Duration now, double per_second = 500,
                      double burst = 5'000)
      : per_second_(per_second), burst_(burst), left_(burst), at_(now) {}

  /// True if one more report is allowed now; counts it.
  [[nodiscard]] bool TryAcquire(Duration now);

 private:
  double per_second_;
  double burst_;
  double left_;
  Duration at_;
};

/// Means over training reports that come faster than they can be recorded. One
/// thread.
class TrainingMeans {
 public:
  void Add(const ProgramTraining& report);
  bool empty() const { return sums_.empty(); }
  /// Returns the last report's point with the mean of each metric, in order of
  /// first appearance, and resets the sums.
  ProgramTraining Drain();

 private:
  struct Sum {
    double total = 0;
    std::int64_t count = 0;
  };

  ProgramPoint point_;
  std::vector<std::string> names_;
  std::map<std::string, Sum> sums_;
};

}  // namespace dtrain

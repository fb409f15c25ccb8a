#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/clock.h"
#include "engine/os/line_reader.h"
#include "engine/os/unique_fd.h"
#include "engine/store/rows.h"

namespace dtrain {

/// Removes a prefix `<N>` of sd-daemon(3) from a line and returns its level.
LogLevel ParseLevelPrefix(std::string_view& line);

/// Converts a stream of bytes from one rank into records: lines, a level by the
/// prefix `<N>` of sd-daemon(3) (stripped) or kInfo, lines over 64 KiB in
/// pieces; without the text of kLineBreak. Bounded memory.
class LogLineSplitter {
 public:
  LogLineSplitter(int rank, bool from_stderr);

  void Feed(std::string_view bytes, Timestamp now,
            const std::function<void(const LogRecord&)>& emit);
  /// Emits what follows the last newline as a line. Called at the stream's end.
  void Finish(Timestamp now, const std::function<void(const LogRecord&)>& emit);

 private:
  void Convert(const LineSplitter::Line& line, Timestamp now,
               const std::function<void(const LogRecord&)>& emit);

  int rank_;
  bool from_stderr_;
  bool continued_ = false;
  LogLevel level_ = LogLevel::kInfo;
  LineSplitter lines_;
};

/// Appends to a trial's log file. Writes whole records, so that a reader that
/// follows the file sees only complete ones. The file is capped: at `cap` bytes
/// it is rotated to `log.1` (replacing an older one), and a record reports how
/// much was dropped. On a full disk lines are dropped and counted; no method
/// throws for it.
class TrialLogWriter {
 public:
  static constexpr std::int64_t kDefaultCap = std::int64_t{64} << 20;

  /// Appends to the file if it exists, else creates it (0600) and its directory
  /// (0700).
  explicit TrialLogWriter(std::filesystem::path path,
                          std::int64_t cap = kDefaultCap);
  TrialLogWriter(TrialLogWriter&&) = default;
  TrialLogWriter& operator=(TrialLogWriter&&) = default;
  /// Flushes.
  ~TrialLogWriter();

  void Append(const LogRecord& record);
  /// Writes the buffer out. The runner calls it at least every 100 ms.
  void Flush();

 private:
  void Open();
  void Rotate();
  void Buffer(const LogRecord& record);
  void Remark(const std::string& text);

  std::filesystem::path path_;
  std::int64_t cap_;
  std::int64_t size_ = 0;
  std::int64_t dropped_ = 0;  // lines that could not be written
  bool torn_ = false;         // the file does not end with a newline
  LogRecord last_;            // time and rank for remarks of our own
  std::string buffer_;
  UniqueFd file_;
};

/// Reads a trial's log in order, the rotated file first. `Next` returns
/// std::nullopt at the current end; called again later it returns the records
/// appended since, across rotations too. Skips lines that are not records. A
/// log that does not exist yet is empty.
class TrialLogReader {
 public:
  explicit TrialLogReader(std::filesystem::path path);

  /// Throws Error(kStore) if the file cannot be read.
  std::optional<LogRecord> Next();
  /// Skips so that about the last `lines` records are still to come; reads
  /// from the end, not the whole file. REQUIRES: no `Next` before.
  void SeekToTail(std::int64_t lines);

 private:
  bool Refill();
  bool OpenNext();
  bool Open(const std::filesystem::path& path);
  std::filesystem::path Rotated() const;

  std::filesystem::path path_;
  UniqueFd file_;
  std::uint64_t inode_ = 0;
  bool passed_on_ = false;  // the file is not the log any more: read its rest
  LineSplitter lines_;
};

}  // namespace dtrain

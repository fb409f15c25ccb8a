#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/os/unique_fd.h"
#include "engine/store/log_record.h"

namespace dtrain {

/// Appends to a trial's log file. Writes whole records, so that a reader that
/// follows sees no half of one. The file is capped: at `cap` bytes it is
/// rotated to `log.1` (replacing an older one), and a record says how much was
/// dropped. A full disk drops lines and counts them; it never throws for it.
class TrialLogWriter {
 public:
  static constexpr std::int64_t kDefaultCap = std::int64_t{64} << 20;

  /// Goes on with the file if there is one, else creates it (0600) and its
  /// directory (0700).
  explicit TrialLogWriter(std::filesystem::path path,
                          std::int64_t cap = kDefaultCap);
  TrialLogWriter(TrialLogWriter&&) = default;
  TrialLogWriter& operator=(TrialLogWriter&&) = default;
  /// Flushes.
  ~TrialLogWriter();

  void Append(const LogRecord& record);
  /// Writes out what is buffered. Called at least every 100 ms by the runner.
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

}  // namespace dtrain

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dtrain {

/// Splits the bytes of a descriptor into lines, in bounded memory. One thread.
class LineReader {
 public:
  /// A line longer than `max_line` bytes makes `Next` throw Error(kFailed).
  explicit LineReader(int fd, std::size_t max_line = std::size_t{16} << 20)
      : fd_(fd), max_line_(max_line) {}

  /// Reads once, at most 64 KiB. Call `Next` until it returns nothing before
  /// the next `Fill`. False at the end of the stream (`Next` may still return
  /// lines); true if the descriptor would block. A reset connection counts as
  /// the end. Throws Error(kFailed) if the descriptor cannot be read.
  [[nodiscard]] bool Fill();

  /// Returns the next complete line without its newline, if any. Bytes after
  /// the last newline of a stream are not a line.
  std::optional<std::string> Next();

 private:
  int fd_;
  std::size_t max_line_;
  std::string buffer_;
  std::size_t start_ = 0;    // of the first line not yet returned
  std::size_t scanned_ = 0;  // no newline before this
};

/// Writes all of `data`, waiting as needed. False if the peer has closed the
/// connection. A socket raises no SIGPIPE; for a pipe the caller ignores it.
[[nodiscard]] bool WriteAll(int fd, std::string_view data);

}  // namespace dtrain

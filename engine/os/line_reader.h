#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dtrain {

/// Cuts what a descriptor yields into lines, in bounded memory. One thread.
class LineReader {
 public:
  /// A line longer than `max_line` bytes makes `Next` throw Error(kFailed).
  explicit LineReader(int fd, std::size_t max_line = std::size_t{16} << 20)
      : fd_(fd), max_line_(max_line) {}

  /// Reads once what is there, at most 64 KiB; call `Next` until it gives
  /// nothing before the next `Fill`. False at the end of the stream (where
  /// lines may still be to come from `Next`); true if the descriptor would
  /// block. A reset connection counts as the end. Throws Error(kFailed) if the
  /// descriptor cannot be read at all.
  [[nodiscard]] bool Fill();

  /// The next whole line without its newline, or none yet. What follows the
  /// last newline of a stream that ended is no line.
  std::optional<std::string> Next();

 private:
  int fd_;
  std::size_t max_line_;
  std::string buffer_;
  std::size_t start_ = 0;    // of the first line not yet given
  std::size_t scanned_ = 0;  // no newline before this
};

/// Writes all of `data`, waiting as needed. False if the peer is gone. A socket
/// raises no SIGPIPE; whoever writes to a pipe ignores that signal.
[[nodiscard]] bool WriteAll(int fd, std::string_view data);

}  // namespace dtrain

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// Ends the line that another writer of a stream may have begun. dtrain writes
/// it before each line of its own; a line that consists of it is none.
inline constexpr std::string_view kLineBreak = "\x1e\n";

/// Splits bytes that arrive in chunks into lines. Bounded memory: the longest
/// line and one chunk, if `Next` is called until it returns nothing. One
/// thread.
class LineSplitter {
 public:
  /// Treatment of a line of more than `max_line` bytes.
  enum class Overlong {
    kThrow,    // Next throws Error(kFailed)
    kDiscard,  // discarded to its end; Next returns its first 100 bytes
    kCut,      // returned in pieces of `max_line` bytes
  };

  struct Line {
    std::string_view text;  // valid until the next Append or Clear
    bool overlong = false;  // discarded, or cut: the next line continues it
  };

  explicit LineSplitter(std::size_t max_line,
                        Overlong overlong = Overlong::kThrow)
      : max_line_(max_line), overlong_(overlong) {}

  void Append(std::string_view bytes);
  /// Returns the next complete line without its newline, or piece of a line,
  /// if any.
  std::optional<Line> Next();
  /// Returns the bytes after the last newline as a line, if any. Called at the
  /// end of a stream, after `Next` has returned nothing.
  std::optional<Line> Rest();
  /// Forgets everything that was appended.
  void Clear();

 private:
  Line ExtractLine(std::size_t length, std::size_t next, bool overlong);

  std::size_t max_line_;
  Overlong overlong_;
  std::string buffer_;
  std::size_t start_ = 0;    // of the first line not yet returned
  std::size_t scanned_ = 0;  // no newline before this
  // `buffer_` starts within a line that was too long.
  bool discarding_ = false;
};

/// Reads the lines of a descriptor. One thread.
class LineReader {
 public:
  static constexpr std::size_t kMaxLine = std::size_t{16} << 20;

  /// A line longer than `max_line` bytes makes `Next` throw Error(kFailed).
  explicit LineReader(int fd, std::size_t max_line = kMaxLine)
      : fd_(fd), lines_(max_line) {}

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
  LineSplitter lines_;
};

/// A socket of lines that never blocks: data that the peer does not read at
/// once is buffered and written later. One thread.
class LineSocket {
 public:
  /// `peer` names the reader in error messages. REQUIRES: `socket` is
  /// non-blocking.
  explicit LineSocket(UniqueFd socket, std::string peer,
                      std::size_t max_line = LineReader::kMaxLine)
      : socket_(std::move(socket)),
        peer_(std::move(peer)),
        reader_(socket_.get(), max_line) {}

  int fd() const { return socket_.get(); }

  /// Writes a line, newline included, now or later. Dropped if the peer has
  /// closed the connection. Throws Error(kFailed) if the peer leaves too much
  /// unread.
  void Write(std::string_view line);
  /// Writes buffered data as far as possible without blocking.
  void Flush();
  bool wants_write() const { return !buffer_.empty(); }

  /// See LineReader.
  [[nodiscard]] bool Fill() { return reader_.Fill(); }
  std::optional<std::string> Next() { return reader_.Next(); }

 private:
  UniqueFd socket_;
  std::string peer_;
  LineReader reader_;
  std::string buffer_;
};

/// Writes all of `data`, waiting as needed. False if the peer has closed the
/// connection. A socket raises no SIGPIPE; for a pipe the caller ignores it.
[[nodiscard]] bool WriteAll(int fd, std::string_view data);

}  // namespace dtrain

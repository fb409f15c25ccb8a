#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/os/line_reader.h"
#include "engine/os/unique_fd.h"
#include "engine/wire/message.h"

namespace dtrain {

/// The runner's end of a trial's control socket. Never blocks: data that the
/// trial does not read at once is buffered and written later. One thread.
class ControlChannel {
 public:
  static constexpr std::size_t kMaxLine = std::size_t{16} << 20;

  /// `peer` names the reader in error messages. REQUIRES: `socket` is
  /// non-blocking.
  explicit ControlChannel(UniqueFd socket, std::string peer = "the trial",
                          std::size_t max_line = kMaxLine)
      : socket_(std::move(socket)),
        peer_(std::move(peer)),
        reader_(socket_.get(), max_line) {}

  int fd() const { return socket_.get(); }

  /// Writes a line, newline included, now or later. Dropped if the trial has
  /// ended. Throws Error(kFailed) if too much is unread by the trial.
  void Write(std::string_view line);
  /// Writes buffered data as far as possible without blocking.
  void Flush();
  bool wants_write() const { return !buffer_.empty(); }

  /// Reads available data once; false at the end of the stream.
  [[nodiscard]] bool Fill() { return reader_.Fill(); }
  /// Returns the next complete line, if any. Throws Error(kFailed) if it is too
  /// long.
  std::optional<std::string> NextLine() { return reader_.Next(); }
  /// Returns the next complete message, if any. Throws Error(kFailed) if a line
  /// is not a message.
  std::optional<TrialMessage> Next();

 private:
  UniqueFd socket_;
  std::string peer_;
  LineReader reader_;
  std::string buffer_;
};

}  // namespace dtrain

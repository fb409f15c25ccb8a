#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/os/line_reader.h"
#include "engine/os/unique_fd.h"
#include "engine/wire/message.h"

namespace dtrain {

/// The runner's end of a trial's control socket. Never waits: what the trial
/// does not take at once is kept and written later. One thread.
class ControlChannel {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{16} << 20;

  /// `peer` is who reads what is written, for messages. REQUIRES: `socket` does
  /// not block.
  explicit ControlChannel(UniqueFd socket, std::string peer = "the trial",
                          std::size_t max_line = kLongestLine)
      : socket_(std::move(socket)),
        peer_(std::move(peer)),
        reader_(socket_.get(), max_line) {}

  int fd() const { return socket_.get(); }

  /// Writes a line, newline included, now or later. Throws Error(kFailed) if
  /// far too much waits to be read by the trial. Dropped if it is gone.
  void Write(std::string_view line);
  /// Writes what was kept, as far as it goes now.
  void Flush();
  bool wants_write() const { return !kept_.empty(); }

  /// Reads once what is there; false at the end of the stream.
  [[nodiscard]] bool Fill() { return reader_.Fill(); }
  /// The next line, or none yet. Throws Error(kFailed) if it is too long.
  std::optional<std::string> NextLine() { return reader_.Next(); }
  /// The next message, or none yet. Throws Error(kFailed) for what is none.
  std::optional<TrialMessage> Next();

 private:
  UniqueFd socket_;
  std::string peer_;
  LineReader reader_;
  std::string kept_;
};

}  // namespace dtrain

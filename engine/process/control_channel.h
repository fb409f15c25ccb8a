#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/base/unique_fd.h"
#include "engine/wire/line_reader.h"
#include "engine/wire/message.h"

namespace dtrain {

/// The runner's end of a trial's control socket. Never waits: what the trial
/// does not take at once is kept and written later. One thread.
class ControlChannel {
 public:
  /// REQUIRES: `socket` does not block.
  explicit ControlChannel(UniqueFd socket)
      : socket_(std::move(socket)), reader_(socket_.get()) {}

  int fd() const { return socket_.get(); }

  /// Writes a line, newline included, now or later. Throws Error(kFailed) if
  /// far too much waits to be read by the trial. Dropped if it is gone.
  void Write(std::string_view line);
  /// Writes what was kept, as far as it goes now.
  void Flush();
  bool wants_write() const { return !kept_.empty(); }

  /// Reads once what is there; false at the end of the stream.
  [[nodiscard]] bool Fill() { return reader_.Fill(); }
  /// The next message, or none yet. Throws Error(kFailed) for what is none.
  std::optional<TrialMessage> Next();

 private:
  UniqueFd socket_;
  LineReader reader_;
  std::string kept_;
};

}  // namespace dtrain

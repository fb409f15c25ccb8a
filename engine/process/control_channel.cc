#include "engine/process/control_channel.h"

#include <cerrno>

#include <sys/socket.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

// Larger than any specification plus the acknowledgements that a working trial
// leaves unread.
constexpr std::size_t kMaxBuffered = std::size_t{8} << 20;

}  // namespace

void ControlChannel::Write(std::string_view line) {
  buffer_ += line;
  Flush();
  if (buffer_.size() > kMaxBuffered) {
    throw Error(ErrorKind::kFailed,
                peer_ + " does not read its control socket: " +
                    std::to_string(buffer_.size()) + " bytes are unread");
  }
}

void ControlChannel::Flush() {
  std::size_t written = 0;
  while (written < buffer_.size()) {
    const ssize_t count = ::send(socket_.get(), buffer_.data() + written,
                                 buffer_.size() - written, MSG_NOSIGNAL);
    if (count >= 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) {
      written = buffer_.size();  // The trial has ended.
    } else if (errno != EINTR) {
      break;  // The socket is full. The rest must not be dropped.
    }
  }
  buffer_.erase(0, written);
}

std::optional<TrialMessage> ControlChannel::Next() {
  const std::optional<std::string> line = NextLine();
  if (!line) return std::nullopt;
  return DecodeTrialMessage(*line);
}

}  // namespace dtrain

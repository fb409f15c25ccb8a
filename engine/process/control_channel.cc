#include "engine/process/control_channel.h"

#include <cerrno>

#include <sys/socket.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

// More than any specification and as many acknowledgements as a sane trial
// leaves unread.
constexpr std::size_t kMostKept = std::size_t{8} << 20;

}  // namespace

void ControlChannel::Write(std::string_view line) {
  kept_ += line;
  Flush();
  if (kept_.size() > kMostKept) {
    throw Error(ErrorKind::kFailed,
                peer_ + " does not read its control socket: " +
                    std::to_string(kept_.size()) + " bytes wait for it");
  }
}

void ControlChannel::Flush() {
  std::size_t written = 0;
  while (written < kept_.size()) {
    const ssize_t count = ::send(socket_.get(), kept_.data() + written,
                                 kept_.size() - written, MSG_NOSIGNAL);
    if (count >= 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) {
      written = kept_.size();  // The trial is gone.
    } else if (errno != EINTR) {
      break;  // No room for it now: what is lost would be waited for.
    }
  }
  kept_.erase(0, written);
}

std::optional<TrialMessage> ControlChannel::Next() {
  const std::optional<std::string> line = NextLine();
  if (!line) return std::nullopt;
  return DecodeTrialMessage(*line);
}

}  // namespace dtrain

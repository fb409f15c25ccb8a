#include "engine/os/line_reader.h"

#include <cerrno>
#include <cstring>
#include <system_error>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/os/socket.h"

namespace dtrain {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;

[[noreturn]] void Fail(const std::string& what, int error) {
  throw Error(ErrorKind::kFailed, "control channel: cannot " + what + ": " +
                                      std::generic_category().message(error));
}

// A socket must not raise SIGPIPE, whatever the process does with that signal;
// a pipe has no such flag.
ssize_t WriteSome(int fd, std::string_view data) {
  const ssize_t sent = ::send(fd, data.data(), data.size(), MSG_NOSIGNAL);
  if (sent >= 0 || errno != ENOTSOCK) return sent;
  return ::write(fd, data.data(), data.size());
}

void WaitUntilWritable(int fd) {
  pollfd entry{.fd = fd, .events = POLLOUT, .revents = 0};
  while (::poll(&entry, 1, -1) < 0) {
    if (errno != EINTR) Fail("wait for it", errno);
  }
}

}  // namespace

bool LineReader::Fill() {
  // Moving the rest only when half of the buffer is consumed keeps the cost of
  // a long line linear.
  if (start_ >= buffer_.size() - start_) {
    buffer_.erase(0, start_);
    scanned_ -= start_;
    start_ = 0;
  }
  const std::size_t size = buffer_.size();
  buffer_.resize(size + kChunk);
  ssize_t count = -1;
  do {
    count = ::read(fd_, buffer_.data() + size, kChunk);
  } while (count < 0 && errno == EINTR);
  const int error = errno;
  buffer_.resize(size + static_cast<std::size_t>(count > 0 ? count : 0));
  if (count >= 0) return count > 0;
  if (error == EAGAIN || error == EWOULDBLOCK) return true;
  if (PeerIsGone(error)) return false;
  Fail("read", error);
}

std::optional<std::string> LineReader::Next() {
  const std::size_t end = buffer_.find('\n', scanned_);
  const bool whole = end != std::string::npos;
  const std::size_t length = (whole ? end : buffer_.size()) - start_;
  if (length > max_line_) {
    throw Error(ErrorKind::kFailed, "control channel: a line is longer than " +
                                        std::to_string(max_line_) +
                                        " bytes; send less in one message");
  }
  if (!whole) {
    scanned_ = buffer_.size();
    return std::nullopt;
  }
  std::string line = buffer_.substr(start_, length);
  start_ = end + 1;
  scanned_ = start_;
  return line;
}

bool WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t count = WriteSome(fd, data);
    if (count >= 0) {
      data.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      WaitUntilWritable(fd);
    } else if (PeerIsGone(errno)) {
      return false;
    } else if (errno != EINTR) {
      Fail("write", errno);
    }
  }
  return true;
}

}  // namespace dtrain

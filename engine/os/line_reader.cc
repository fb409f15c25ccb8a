// Lines from a stream of bytes. LineSplitter remembers up to where it has
// searched for a newline, so that a long line which arrives in many chunks
// takes linear time. LineReader reads a descriptor through it. LineSocket also
// writes: bytes that the socket does not take at once are kept, and are an
// error from kMaxBuffered on, so that a peer which stops reading cannot fill
// this process's memory.

#include "engine/os/line_reader.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/os/socket.h"
#include "engine/os/system_error.h"

namespace dtrain {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;
// Bytes of a discarded line that are kept to show it.
constexpr std::size_t kShown = 100;
// Larger than any specification of a trial plus the acknowledgements that a
// working trial leaves unread.
constexpr std::size_t kMaxBuffered = std::size_t{8} << 20;

[[noreturn]] void Fail(const std::string& what, int error) {
  throw Error(ErrorKind::kFailed,
              "control channel: cannot " + what + ": " + ErrnoText(error));
}

}  // namespace

void LineSplitter::Append(std::string_view bytes) {
  // Moving the rest only when half of the buffer is consumed keeps the cost of
  // a long line linear.
  if (start_ >= buffer_.size() - start_) {
    buffer_.erase(0, start_);
    scanned_ -= start_;
    start_ = 0;
  }
  buffer_ += bytes;
}

std::optional<LineSplitter::Line> LineSplitter::Next() {
  const std::size_t end = buffer_.find('\n', scanned_);
  const bool whole = end != std::string::npos;
  scanned_ = whole ? end : buffer_.size();
  const std::size_t length = scanned_ - start_;
  const bool overlong = discarding_ || length > max_line_;
  if (overlong && overlong_ == Overlong::kThrow) {
    throw Error(ErrorKind::kFailed, "control channel: a line is longer than " +
                                        std::to_string(max_line_) +
                                        " bytes; send less in one message");
  }
  if (overlong && overlong_ == Overlong::kCut) {
    return ExtractLine(max_line_, start_ + max_line_, /*overlong=*/true);
  }
  const std::size_t kept = overlong ? std::min(length, kShown) : length;
  if (whole) return ExtractLine(kept, end + 1, overlong);
  if (overlong) {
    discarding_ = true;
    buffer_.resize(start_ + kept);
    scanned_ = buffer_.size();
  }
  return std::nullopt;
}

LineSplitter::Line LineSplitter::ExtractLine(std::size_t length,
                                             std::size_t next, bool overlong) {
  const Line line{std::string_view(buffer_).substr(start_, length), overlong};
  start_ = next;
  scanned_ = std::max(scanned_, start_);
  discarding_ = false;
  return line;
}

std::optional<LineSplitter::Line> LineSplitter::Rest() {
  if (start_ == buffer_.size()) return std::nullopt;
  return ExtractLine(buffer_.size() - start_, buffer_.size(), discarding_);
}

void LineSplitter::Clear() {
  buffer_.clear();
  start_ = 0;
  scanned_ = 0;
  discarding_ = false;
}

bool LineReader::Fill() {
  std::array<char, kChunk> chunk;
  ssize_t count = -1;
  do {
    count = ::read(fd_, chunk.data(), chunk.size());
  } while (count < 0 && errno == EINTR);
  if (count >= 0) {
    lines_.Append({chunk.data(), static_cast<std::size_t>(count)});
    return count > 0;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
  if (PeerIsGone(errno)) return false;
  Fail("read", errno);
}

std::optional<std::string> LineReader::Next() {
  const std::optional<LineSplitter::Line> line = lines_.Next();
  if (!line) return std::nullopt;
  return std::string(line->text);
}

void LineSocket::Write(std::string_view line) {
  buffer_ += line;
  Flush();
  if (buffer_.size() > kMaxBuffered) {
    throw Error(ErrorKind::kFailed,
                peer_ + " does not read its control socket: " +
                    std::to_string(buffer_.size()) + " bytes are unread");
  }
}

void LineSocket::Flush() {
  std::size_t written = 0;
  while (written < buffer_.size()) {
    const ssize_t count = ::send(socket_.get(), buffer_.data() + written,
                                 buffer_.size() - written, MSG_NOSIGNAL);
    if (count >= 0) {
      written += static_cast<std::size_t>(count);
    } else if (PeerIsGone(errno)) {
      written = buffer_.size();
    } else if (errno != EINTR) {
      break;  // The socket is full. The rest must not be dropped.
    }
  }
  buffer_.erase(0, written);
}

bool WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    // A socket must not raise SIGPIPE, whatever the process does with that
    // signal; a pipe has no such flag.
    ssize_t count = ::send(fd, data.data(), data.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == ENOTSOCK) {
      count = ::write(fd, data.data(), data.size());
    }
    if (count >= 0) {
      data.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd entry{.fd = fd, .events = POLLOUT, .revents = 0};
      while (::poll(&entry, 1, -1) < 0) {
        if (errno != EINTR) Fail("wait for it", errno);
      }
    } else if (PeerIsGone(errno)) {
      return false;
    } else if (errno != EINTR) {
      Fail("write", errno);
    }
  }
  return true;
}

}  // namespace dtrain

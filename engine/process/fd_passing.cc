#include "engine/process/fd_passing.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include <sys/socket.h>

#include "engine/base/system_error.h"

namespace dtrain {
namespace {

// The kernel takes at most 253 descriptors in a message; a trial that has all
// cores of a large machine holds more slot locks than that.
constexpr std::size_t kFdsAtOnce = 250;
constexpr std::size_t kLongestText = std::size_t{64} << 10;

using ControlBuffer = std::array<char, CMSG_SPACE(sizeof(int) * kFdsAtOnce)>;

bool PeerIsGone(int error) {
  return error == EPIPE || error == ECONNRESET || error == ENOTCONN;
}

// One message: how many descriptors the packet has in all, text, descriptors.
bool SendMessage(int socket, std::uint32_t fd_count, std::string_view text,
                 std::span<const int> fds) {
  std::array<iovec, 2> parts = {
      iovec{&fd_count, sizeof(fd_count)},
      iovec{const_cast<char*>(text.data()), text.size()}};
  alignas(cmsghdr) ControlBuffer control{};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (PeerIsGone(errno)) return false;
    if (errno != EINTR) ThrowSystemError("send a request to the trial host");
  }
  return true;
}

void TakeFds(msghdr& message, std::vector<UniqueFd>& fds) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t bytes = header->cmsg_len - CMSG_LEN(0);
    for (std::size_t at = 0; at < bytes; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof(fd));
      fds.emplace_back(fd);
    }
  }
}

// Appends what one message brought; gives the packet's number of descriptors.
std::optional<std::uint32_t> ReceiveMessage(int socket, Packet& packet) {
  std::string text(kLongestText, '\0');
  std::uint32_t fd_count = 0;
  std::array<iovec, 2> parts = {iovec{&fd_count, sizeof(fd_count)},
                                iovec{text.data(), text.size()}};
  alignas(cmsghdr) ControlBuffer control{};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size = -1;
  do {
    size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0 && !PeerIsGone(errno)) {
    ThrowSystemError("read from the trial host's socket");
  }
  if (size < static_cast<ssize_t>(sizeof(fd_count))) return std::nullopt;
  TakeFds(message, packet.fds);
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    throw Error(ErrorKind::kFailed,
                "the trial host's socket lost a part of a packet; raise the "
                "limit of open files (ulimit -n)");
  }
  text.resize(static_cast<std::size_t>(size) - sizeof(fd_count));
  packet.text += text;
  return fd_count;
}

}  // namespace

bool SendPacket(int socket, std::string_view text, std::span<const int> fds) {
  const auto fd_count = static_cast<std::uint32_t>(fds.size());
  do {
    const auto some = fds.first(std::min(fds.size(), kFdsAtOnce));
    if (!SendMessage(socket, fd_count, text, some)) return false;
    fds = fds.subspan(some.size());
    text = {};
  } while (!fds.empty());
  return true;
}

std::optional<Packet> ReceivePacket(int socket) {
  Packet packet;
  std::optional<std::uint32_t> fd_count;
  do {
    fd_count = ReceiveMessage(socket, packet);
    if (!fd_count) return std::nullopt;
  } while (packet.fds.size() < *fd_count);
  return packet;
}

}  // namespace dtrain

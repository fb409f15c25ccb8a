// TCP between machines, and packets with descriptors to the trial host. A
// message on a Unix socket carries at most 253 descriptors, so a packet with
// more is sent as several messages: each begins with the packet's number of
// descriptors, and the receiver reads until it has all of them.
//
// Sockets of TCP do not block, and the kernel watches the peer: keep-alive
// probes find a machine that is gone after half a minute even if nothing is
// sent, TCP_USER_TIMEOUT if something is. Small messages are sent at once
// (TCP_NODELAY), because a peer often waits for one.

#include "engine/os/socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

#include <poll.h>
#include <sys/socket.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/system_error.h"

namespace dtrain {
namespace {

// Keep-alive probes of a silent peer: after 10 s, then four at 5 s intervals.
constexpr int kKeepIdle = 10;
constexpr int kKeepInterval = 5;
constexpr int kKeepCount = 4;
constexpr unsigned kUnansweredMilliseconds = 30'000;
// All ranks may connect at once, three times each.
constexpr int kBacklog = 1024;

constexpr const char* kAllAddresses = "::";
constexpr const char* kAllIpv4 = "0.0.0.0";

struct AddressDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, AddressDeleter>;

Addresses ResolveAddresses(const HostPort& place, std::string& problem) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(
      place.host.c_str(), std::to_string(place.port).c_str(), &hints, &list);
  if (error != 0) {
    problem = error == EAI_SYSTEM ? ErrnoText() : ::gai_strerror(error);
  }
  return Addresses(error == 0 ? list : nullptr);
}

void SetOption(int socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, &value, sizeof value);
}

void Tune(int socket) {
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdle);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, kKeepInterval);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPCNT, kKeepCount);
  SetOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnansweredMilliseconds);
}

UniqueFd SocketFor(const addrinfo& address) {
  return UniqueFd(::socket(address.ai_family,
                           SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                           address.ai_protocol));
}

// Holds none, with errno set, on failure.
UniqueFd ListenAtAddress(const addrinfo& address) {
  UniqueFd socket = SocketFor(address);
  if (!socket) return socket;
  // Connections of a runner that has just ended must not block the port.
  SetOption(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(socket.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    const int error = errno;
    socket.reset();
    errno = error;
  }
  return socket;
}

struct Listening {
  UniqueFd socket;
  std::string problem;     // if there is no socket
  bool elsewhere = false;  // all addresses tried belong to other machines
  bool loopback = false;   // loopback addresses were skipped
};

// Listens on the first address of the place that works.
// Only an address of another machine lets the next one be tried: with a port
// that is in use, another address would hide the problem.
Listening ListenAtFirst(const HostPort& place, bool loopback_too) {
  Listening listening{.elsewhere = true};
  const Addresses addresses = ResolveAddresses(place, listening.problem);
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    const auto* ip4 = reinterpret_cast<const sockaddr_in*>(at->ai_addr);
    const auto* ip6 = reinterpret_cast<const sockaddr_in6*>(at->ai_addr);
    const bool is_loopback =
        at->ai_family == AF_INET
            ? ntohl(ip4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
            : at->ai_family == AF_INET6 &&
                  IN6_IS_ADDR_LOOPBACK(&ip6->sin6_addr);
    if (!loopback_too && is_loopback) {
      listening.loopback = true;
      continue;
    }
    listening.socket = ListenAtAddress(*at);
    if (listening.socket) return listening;
    const int error = errno;
    listening.problem = ErrnoText(error);
    listening.elsewhere = error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
    if (!listening.elsewhere) return listening;
  }
  return listening;
}

// Returns 0 or the errno of the failure.
int AwaitConnection(int socket, Duration limit) {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
  pollfd entry{.fd = socket, .events = POLLOUT, .revents = 0};
  int ready = -1;
  do {
    ready = ::poll(&entry, 1, static_cast<int>(milliseconds));
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) return errno;
  if (ready == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

// The kernel takes at most 253 descriptors in a message; a trial that has all
// cores of a large machine holds more slot locks than that.
constexpr std::size_t kFdsAtOnce = 250;
constexpr std::size_t kLongestText = std::size_t{64} << 10;

using ControlBuffer = std::array<char, CMSG_SPACE(sizeof(int) * kFdsAtOnce)>;

// Sends a message: the packet's number of descriptors, text, descriptors.
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

void ExtractFds(msghdr& message, std::vector<UniqueFd>& fds) {
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

// Appends a received message; returns the packet's number of descriptors.
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
  ExtractFds(message, packet.fds);
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

bool PeerIsGone(int error) {
  return error == ECONNRESET || error == EPIPE || error == ENOTCONN;
}

std::string ToString(const HostPort& place) {
  const bool colons = place.host.find(':') != std::string::npos;
  return (colons ? "[" + place.host + "]" : place.host) + ":" +
         std::to_string(place.port);
}

void RequireAddress(const std::string& host) {
  std::string problem;
  if (ResolveAddresses({.host = host}, problem)) return;
  throw Error(ErrorKind::kUsage, EscapeForTerminal(host) + ": " + problem);
}

UniqueFd ListenAt(const HostPort& place, const ListenOptions& options) {
  in6_addr address;
  const bool needs_no_resolver =
      place.host == "localhost" ||
      ::inet_pton(AF_INET, place.host.c_str(), &address) == 1 ||
      ::inet_pton(AF_INET6, place.host.c_str(), &address) == 1;
  Listening listening =
      ListenAtFirst(place, options.only_here || needs_no_resolver);
  if (options.notice != nullptr && !listening.socket && listening.elsewhere) {
    *options.notice =
        EscapeForTerminal(place.host) +
        (listening.loopback
             ? " is a loopback address here, which no other machine can reach"
             : " is not an address of this machine");
  }
  // A socket on all IPv6 addresses accepts IPv4, too.
  for (const char* const host : {kAllAddresses, kAllIpv4}) {
    if (listening.socket) return std::move(listening.socket);
    if (!listening.elsewhere) break;
    listening = ListenAtFirst({host, place.port}, /*loopback_too=*/true);
  }
  if (listening.socket) return std::move(listening.socket);
  throw Error(ErrorKind::kResources, "cannot listen at " +
                                         EscapeForTerminal(ToString(place)) +
                                         ": " + listening.problem);
}

int GetPort(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) !=
      0) {
    ThrowSystemError("find the port of a socket");
  }
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

namespace {

// Returns the text of an address. An IPv4 address that is mapped to IPv6 is the
// IPv4 address.
std::string AddressText(const sockaddr_storage& address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size,
                    host.data(), host.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    return "";
  }
  const std::string text = host.data();
  constexpr std::string_view kMapped = "::ffff:";
  const bool is_mapped =
      text.starts_with(kMapped) && text.find('.') != text.npos;
  return is_mapped ? text.substr(kMapped.size()) : text;
}

}  // namespace

ConnectionEnds GetConnectionEnds(int socket) {
  const auto text_of = [socket](auto* ask) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    const bool is_known =
        ask(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    return is_known ? AddressText(address, size) : "";
  };
  return {.mine = text_of(::getsockname), .peer = text_of(::getpeername)};
}

bool IsLoopbackAddress(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

UniqueFd AcceptFrom(int listener) {
  UniqueFd socket(
      ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) Tune(socket.get());
  return socket;
}

UniqueFd ConnectTo(const HostPort& place, Duration limit) {
  std::string problem;
  const Addresses addresses = ResolveAddresses(place, problem);
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    UniqueFd socket = SocketFor(*at);
    if (!socket) continue;
    int error = 0;
    if (::connect(socket.get(), at->ai_addr, at->ai_addrlen) != 0) {
      error =
          errno == EINPROGRESS ? AwaitConnection(socket.get(), limit) : errno;
    }
    if (error == 0) {
      Tune(socket.get());
      return socket;
    }
    problem = ErrnoText(error);
  }
  throw Error(ErrorKind::kFailed, "cannot connect to " +
                                      EscapeForTerminal(ToString(place)) +
                                      ": " + problem);
}

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

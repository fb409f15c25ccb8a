#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/unique_fd.h"

namespace dtrain {

/// A machine, by name or address, and a port of it.
struct HostPort {
  std::string host;
  int port = 0;
};

/// "node1:29400", "[::1]:29400".
std::string ToString(const HostPort& place);

/// Throws Error(kUsage), "node1: " and why, if no address is known for it.
void RequireAddress(const std::string& host);

// All sockets here are close-on-exec and do not block; small messages leave at
// once, and a peer whose machine has vanished is noticed within 30 s.

struct ListenOptions {
  // Whether only processes of this machine connect.
  bool only_here = false;
  // Is told why it is listened on all addresses of this machine; may be null.
  std::string* notice = nullptr;
};

/// Listens at `place`, on the address of this machine that its host is. On all
/// of this machine's where the host is none of them, and where it is a name
/// that stands for a loopback address: many a machine's /etc/hosts knows its
/// own name as 127.0.1.1, which no other one can reach. Port 0: any that is
/// free. Throws Error(kResources) that names the place.
UniqueFd ListenAt(const HostPort& place, const ListenOptions& options = {});

/// The port that a socket listens on.
int PortOf(int socket);

/// The next who has connected to `listener`; none, and errno, if nobody can be
/// had.
UniqueFd AcceptFrom(int listener);

/// Connects, trying the addresses of the host in turn for up to `limit` each.
/// Throws Error(kFailed) that names the place.
UniqueFd ConnectTo(const HostPort& place, Duration limit);

/// Whether an errno value of reading or writing says that the other end of the
/// connection has closed it.
bool PeerIsGone(int error);

/// A text and the descriptors that came with it, close-on-exec.
struct Packet {
  std::string text;
  std::vector<UniqueFd> fds;
};

/// Sends `text` (less than 64 KiB) and copies of `fds`, any number of them,
/// over a SOCK_SEQPACKET socket. False if the peer is gone. Throws
/// Error(kFailed).
[[nodiscard]] bool SendPacket(int socket, std::string_view text,
                              std::span<const int> fds);

/// Waits for the next packet; none if the peer is gone. Throws Error(kFailed).
std::optional<Packet> ReceivePacket(int socket);

}  // namespace dtrain

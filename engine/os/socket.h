#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/unique_fd.h"

namespace dtrain {

/// Name or address of a machine, and a port.
struct HostPort {
  std::string host;
  int port = 0;
};

/// "node1:29400", "[::1]:29400".
std::string ToString(const HostPort& place);

/// Throws Error(kUsage), "node1: " and the reason, if the host cannot be
/// resolved.
void RequireAddress(const std::string& host);

// All sockets here are close-on-exec and non-blocking, without Nagle's
// algorithm; a peer whose machine has vanished is detected within 30 s.

struct ListenOptions {
  // Only processes of this machine connect.
  bool only_here = false;
  // Receives the reason if it listens on all addresses; may be null.
  std::string* notice = nullptr;
};

/// Listens on the address of this machine that `place` names, or on all its
/// addresses if the host is not one of them or is a name for a loopback
/// address: many machines have their own name as 127.0.1.1 in /etc/hosts, which
/// no other machine can reach. Port 0: any free port. Throws Error(kResources)
/// naming the place.
UniqueFd ListenAt(const HostPort& place, const ListenOptions& options = {});

/// Returns the port that a socket listens on.
int GetPort(int socket);

/// IP addresses of the two ends of a connection, "10.0.0.7"; empty if unknown.
struct ConnectionEnds {
  std::string mine;
  std::string peer;
};
ConnectionEnds GetConnectionEnds(int socket);

/// True for an address that is reached from its own machine only.
bool IsLoopbackAddress(const std::string& address);

/// Accepts a connection; holds none, with errno set, if there is none or it
/// fails.
UniqueFd AcceptFrom(int listener);

/// Connects; tries the addresses of the host in turn, each for up to `limit`.
/// Throws Error(kFailed) naming the place.
UniqueFd ConnectTo(const HostPort& place, Duration limit);

/// True if an errno value of a read or write means that the peer has closed the
/// connection.
bool PeerIsGone(int error);

/// A received text and its descriptors, close-on-exec.
struct Packet {
  std::string text;
  std::vector<UniqueFd> fds;
};

/// Sends `text` (less than 64 KiB) and copies of `fds`, any number of them,
/// over a SOCK_SEQPACKET socket. False if the peer has closed it. Throws
/// Error(kFailed).
[[nodiscard]] bool SendPacket(int socket, std::string_view text,
                              std::span<const int> fds);

/// Waits for the next packet; none if the peer has closed the socket. Throws
/// Error(kFailed).
std::optional<Packet> ReceivePacket(int socket);

}  // namespace dtrain

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/unique_fd.h"

namespace dtrain {

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

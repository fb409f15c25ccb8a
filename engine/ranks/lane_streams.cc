#include "engine/ranks/lane_streams.h"

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>

namespace dtrain {
namespace {

// How long a rank sleeps before it asks whether to give up.
constexpr int kSleepMilliseconds = 100;

bool WouldWait(ssize_t count) {
  return count < 0 && (errno == EAGAIN || errno == EINTR);
}

}  // namespace

LaneStreams::LaneStreams(RankConnections& connections, int lane,
                         std::function<bool()> give_up)
    : connections_(connections), lane_(lane), give_up_(std::move(give_up)) {}

void LaneStreams::Swap(int peer, std::span<const std::byte> out,
                       std::span<std::byte> in) {
  while (!out.empty() || !in.empty()) {
    const std::size_t sent = SendSome(peer, out);
    const std::size_t received = ReceiveSome(peer, in);
    out = out.subspan(sent);
    in = in.subspan(received);
    if (sent + received > 0) continue;
    Await(peer, static_cast<short>((out.empty() ? 0 : POLLOUT) |
                                   (in.empty() ? 0 : POLLIN)));
  }
}

std::size_t LaneStreams::SendSome(int peer, std::span<const std::byte> bytes) {
  if (bytes.empty()) return 0;
  const ssize_t count = ::send(connections_.Lane(lane_, peer), bytes.data(),
                               bytes.size(), MSG_NOSIGNAL);
  if (WouldWait(count)) return 0;
  if (count < 0) connections_.failures().ThrowLost(peer);
  return static_cast<std::size_t>(count);
}

std::size_t LaneStreams::ReceiveSome(int peer, std::span<std::byte> bytes) {
  if (bytes.empty()) return 0;
  const ssize_t count = ::recv(connections_.Lane(lane_, peer), bytes.data(),
                               bytes.size(), MSG_DONTWAIT);
  if (WouldWait(count)) return 0;
  if (count <= 0) connections_.failures().ThrowLost(peer);
  return static_cast<std::size_t>(count);
}

void LaneStreams::Await(int peer, short events) {
  std::vector<pollfd> entries = {
      {.fd = connections_.Lane(lane_, peer), .events = events}};
  connections_.failures().AddTo(entries);
  const int ready = ::poll(entries.data(), entries.size(), kSleepMilliseconds);
  connections_.failures().ThrowIfFailed();
  if (ready != 0 || !give_up_ || !give_up_()) return;
  connections_.failures().Fail("gave up waiting for rank " +
                               std::to_string(peer));
  connections_.failures().ThrowIfFailed();
}

}  // namespace dtrain

// Failures have connections of their own beside those of data, because data
// connections may be in the middle of a transfer whose peer no longer reads.
// Ranks other than 0 know only rank 0; it passes a failure on to all but the
// rank that reported it. The first failure counts and is kept as the reason:
// later ones are mostly its consequences.
//
// A channel that ends is no failure by itself, because ranks end at different
// times. Only when a connection of data fails is its end explained:
// ThrowDisconnected waits a moment for the reason, which may arrive just after,
// and reports a lost connection if none comes.

#include "engine/ranks/abort_channel.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>

#include <sys/socket.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kReasonBytes = 1000;
// Longest delay of a reason after the end of the channel that it explains.
constexpr milliseconds kReasonWait{500};

struct Header {
  std::uint32_t rank = 0;
  std::uint32_t bytes = 0;
};

}  // namespace

AbortChannel::AbortChannel(int rank, std::vector<UniqueFd> peers)
    : rank_(rank) {
  for (UniqueFd& socket : peers) {
    const bool none = !socket;
    peers_.push_back({.socket = std::move(socket), .ended = none});
  }
}

void AbortChannel::Abort(std::string_view reason) {
  const std::scoped_lock lock(mutex_);
  Record({.rank = rank_, .reason = std::string(reason.substr(0, kReasonBytes))},
         rank_);
}

// Forwards the first failure to all but the rank that it came from. It fits the
// buffer of a socket on which nothing else is ever sent.
void AbortChannel::Record(Failure failure, int from) {
  if (failure_) return;
  failure_ = std::move(failure);
  const Header header{
      .rank = static_cast<std::uint32_t>(failure_->rank),
      .bytes = static_cast<std::uint32_t>(failure_->reason.size())};
  std::string text(reinterpret_cast<const char*>(&header), sizeof header);
  text += failure_->reason;
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    if (peers_[peer].ended || static_cast<int>(peer) == from) continue;
    [[maybe_unused]] const ssize_t sent = ::send(
        peers_[peer].socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
}

void AbortChannel::Receive(int number, Peer& peer) {
  std::array<char, sizeof(Header) + kReasonBytes> bytes;
  const ssize_t count = ::recv(peer.socket.get(), bytes.data(), bytes.size(),
                               MSG_PEEK | MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const auto size = static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  Header header;
  if (size >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
  const std::size_t whole = sizeof header + header.bytes;
  // Nothing follows a failure or the end of the stream. The end alone is not a
  // failure: the rank may have exited normally.
  peer.ended = count <= 0 || size >= whole || whole > bytes.size();
  if (size < whole || whole > bytes.size()) return;
  Record({.rank = static_cast<int>(header.rank),
          .reason = std::string(bytes.data() + sizeof header, header.bytes)},
         number);
}

void AbortChannel::ReceiveAll() {
  for (std::size_t peer = 0; peer < peers_.size() && !failure_; ++peer) {
    if (!peers_[peer].ended) Receive(static_cast<int>(peer), peers_[peer]);
  }
}

void AbortChannel::Throw() const {
  throw Error(ErrorKind::kFailed,
              "rank " + std::to_string(failure_->rank) +
                  " failed: " + ToValidUtf8(failure_->reason));
}

void AbortChannel::ThrowIfAborted() {
  const std::scoped_lock lock(mutex_);
  ReceiveAll();
  if (failure_) Throw();
}

void AbortChannel::ThrowDisconnected(int peer) {
  std::unique_lock lock(mutex_);
  const Peer& lost = peers_[static_cast<std::size_t>(peer)];
  const auto end = steady_clock::now() + kReasonWait;
  ReceiveAll();
  while (!failure_ && !lost.ended && steady_clock::now() < end) {
    pollfd entry{.fd = lost.socket.get(), .events = POLLIN, .revents = 0};
    lock.unlock();
    ::poll(&entry, 1, /*milliseconds=*/20);
    lock.lock();
    ReceiveAll();
  }
  Record({.rank = peer, .reason = kConnectionLost}, peer);
  Throw();
}

void AbortChannel::AddTo(std::vector<pollfd>& entries) {
  const std::scoped_lock lock(mutex_);
  for (const Peer& peer : peers_) {
    if (peer.ended) continue;
    entries.push_back({.fd = peer.socket.get(), .events = POLLIN});
  }
}

}  // namespace dtrain

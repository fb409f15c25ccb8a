// Collectives over TCP, in a star with rank 0 at its centre.
//
// Every call begins with a comparison: each rank sends its call (kind, type,
// operation, root, size) to rank 0, which answers with one byte if all agree.
// Ranks that have come apart, for example because one trains a batch more, thus
// get an error that names the difference instead of wrong sums or a hang. This
// costs a round trip per call.
//
// A reduction goes through rank 0 in chunks of 256 KiB. Rank 0 receives the
// chunk of each rank in the order of ranks, reduces them in that order, which
// makes the result independent of timing, and sends it back. The other ranks
// send and receive at the same time in one buffer: rank 0 returns a chunk only
// after it has received all of it, so a byte is overwritten only after it was
// sent.
//
// Streams never block in a system call. A rank that waits polls its peer and
// the abort channel, on which any rank announces its failure, and asks
// `give_up` every 100 ms. All machines must have the same byte order.

#include "engine/ranks/network_collectives.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>

#include "engine/base/error.h"
#include "engine/ranks/collective_call.h"

namespace dtrain {
namespace {

// Bytes that rank 0 reduces at a time; the next ones wait in socket buffers.
constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

// A call as it is sent, without padding.
struct CallBytes {
  std::uint8_t kind = 0;
  std::uint8_t type = 0;
  std::uint8_t op = 0;
  std::uint8_t root = 0;
  std::uint32_t unused = 0;
  std::uint64_t bytes = 0;
};

CallBytes EncodeCall(const CollectiveCall& call) {
  return {.kind = static_cast<std::uint8_t>(call.kind),
          .type = static_cast<std::uint8_t>(call.type),
          .op = static_cast<std::uint8_t>(call.op),
          .root = call.root,
          .bytes = call.bytes};
}

CollectiveCall DecodeCall(const CallBytes& bytes) {
  return {.kind = static_cast<CollectiveCall::Kind>(bytes.kind),
          .type = static_cast<CollectiveCall::Type>(bytes.type),
          .op = static_cast<ReduceOp>(bytes.op),
          .root = bytes.root,
          .bytes = bytes.bytes};
}

template <typename T>
void ReduceAs(std::span<const std::byte* const> sources, ReduceOp op,
              std::span<std::byte> into) {
  std::vector<const T*> values;
  for (const std::byte* source : sources) {
    values.push_back(reinterpret_cast<const T*>(source));
  }
  Reduce<T>(values, op,
            {reinterpret_cast<T*>(into.data()), into.size() / sizeof(T)});
}

void ReduceBytes(const CollectiveCall& call,
                 std::span<const std::byte* const> sources,
                 std::span<std::byte> into) {
  switch (call.type) {
    case CollectiveCall::Type::kFloat:
      return ReduceAs<float>(sources, call.op, into);
    case CollectiveCall::Type::kDouble:
      return ReduceAs<double>(sources, call.op, into);
    case CollectiveCall::Type::kInt64:
      return ReduceAs<std::int64_t>(sources, call.op, into);
    case CollectiveCall::Type::kBytes:
      break;
  }
}

template <typename T>
std::span<std::byte> BytesAt(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

NetworkCollectives::NetworkCollectives(RankConnections& connections,
                                       ChannelOptions options)
    : Collectives(connections.rank(), connections.ranks()),
      connections_(connections),
      streams_(connections, options.channel, std::move(options.give_up)) {}

// Every rank sends its call to rank 0 and waits until rank 0 has compared all
// of them. The streams hold nothing else at that point.
void NetworkCollectives::Begin(const CollectiveCall& call) {
  connections_.abort_channel().ThrowIfAborted();
  std::byte go{1};
  if (rank() != 0) {
    CallBytes mine = EncodeCall(call);
    streams_.Send(0, BytesAt(mine));
    streams_.Receive(0, BytesAt(go));
    return;
  }
  Compare(call);
  for (int peer = 1; peer < ranks(); ++peer) streams_.Send(peer, BytesAt(go));
}

void NetworkCollectives::Compare(const CollectiveCall& mine) {
  for (int peer = 1; peer < ranks(); ++peer) {
    CallBytes bytes;
    streams_.Receive(peer, BytesAt(bytes));
    const CollectiveCall other = DecodeCall(bytes);
    if (other == mine) continue;
    const std::string difference = DescribeDifference(mine, peer, other);
    SetAborted(difference);
    throw Error(ErrorKind::kFailed, difference);
  }
}

void NetworkCollectives::Reduce(const CollectiveCall& call,
                                std::span<std::byte> values) {
  Begin(call);
  if (ranks() == 1) return;
  if (rank() == 0) return ReduceAll(call, values);
  // Rank 0 returns a chunk after it received all of it.
  streams_.Swap(0, values, values);
}

void NetworkCollectives::ReduceAll(const CollectiveCall& call,
                                   std::span<std::byte> values) {
  const std::size_t chunk = std::min(kChunkBytes, values.size());
  const auto others = static_cast<std::size_t>(ranks() - 1);
  std::vector<std::byte> given(chunk * others);
  std::vector<std::byte> result(chunk);
  std::vector<const std::byte*> sources(others + 1);
  for (std::size_t start = 0; start < values.size(); start += chunk) {
    const std::size_t size = std::min(chunk, values.size() - start);
    const std::span<std::byte> mine = values.subspan(start, size);
    sources[0] = mine.data();
    for (std::size_t i = 0; i < others; ++i) {
      const std::span<std::byte> place(given.data() + i * chunk, size);
      streams_.Receive(static_cast<int>(i + 1), place);
      sources[i + 1] = place.data();
    }
    // Into a buffer of its own: `mine` is one of the sources.
    ReduceBytes(call, sources, std::span(result).first(size));
    std::memcpy(mine.data(), result.data(), size);
    for (int peer = 1; peer < ranks(); ++peer) streams_.Send(peer, mine);
  }
}

void NetworkCollectives::Exchange(const CollectiveCall& call,
                                  std::span<const std::byte> mine,
                                  std::span<const std::span<std::byte>> into) {
  const auto own = static_cast<std::size_t>(rank());
  Begin(call);
  if (!mine.empty() && mine.data() != into[own].data()) {
    std::memmove(into[own].data(), mine.data(), mine.size());
  }
  // The order of the parts is fixed on both sides, so none needs a label: a
  // rank sends its own, then receives those of the others in the order of
  // ranks.
  if (rank() == 0) return CollectAndSend(into);
  streams_.Send(0, mine);
  for (std::size_t peer = 0; peer < into.size(); ++peer) {
    if (peer != own) streams_.Receive(0, into[peer]);
  }
}

void NetworkCollectives::CollectAndSend(
    std::span<const std::span<std::byte>> into) {
  for (std::size_t peer = 1; peer < into.size(); ++peer) {
    streams_.Receive(static_cast<int>(peer), into[peer]);
  }
  for (std::size_t peer = 1; peer < into.size(); ++peer) {
    for (std::size_t giver = 0; giver < into.size(); ++giver) {
      if (giver != peer) streams_.Send(static_cast<int>(peer), into[giver]);
    }
  }
}

namespace {

// Interval at which a waiting rank calls `give_up`.
constexpr int kSleepMilliseconds = 100;

bool WouldWait(ssize_t count) {
  return count < 0 && (errno == EAGAIN || errno == EINTR);
}

}  // namespace

ChannelStreams::ChannelStreams(RankConnections& connections, int channel,
                               std::function<bool()> give_up)
    : connections_(connections),
      channel_(channel),
      give_up_(std::move(give_up)) {}

void ChannelStreams::Swap(int peer, std::span<const std::byte> out,
                          std::span<std::byte> in) {
  while (!out.empty() || !in.empty()) {
    // Both directions at once: if both sides only sent, both would wait for
    // room in full buffers for ever.
    const std::size_t sent = SendSome(peer, out);
    const std::size_t received = ReceiveSome(peer, in);
    out = out.subspan(sent);
    in = in.subspan(received);
    if (sent + received > 0) continue;
    Await(peer, static_cast<short>((out.empty() ? 0 : POLLOUT) |
                                   (in.empty() ? 0 : POLLIN)));
  }
}

std::size_t ChannelStreams::SendSome(int peer,
                                     std::span<const std::byte> bytes) {
  if (bytes.empty()) return 0;
  const ssize_t count = ::send(connections_.Socket(channel_, peer),
                               bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (WouldWait(count)) return 0;
  if (count < 0) connections_.abort_channel().ThrowDisconnected(peer);
  return static_cast<std::size_t>(count);
}

std::size_t ChannelStreams::ReceiveSome(int peer, std::span<std::byte> bytes) {
  if (bytes.empty()) return 0;
  const ssize_t count = ::recv(connections_.Socket(channel_, peer),
                               bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (WouldWait(count)) return 0;
  if (count <= 0) connections_.abort_channel().ThrowDisconnected(peer);
  return static_cast<std::size_t>(count);
}

void ChannelStreams::Await(int peer, short events) {
  std::vector<pollfd> entries = {
      {.fd = connections_.Socket(channel_, peer), .events = events}};
  connections_.abort_channel().AddTo(entries);
  const int ready = ::poll(entries.data(), entries.size(), kSleepMilliseconds);
  connections_.abort_channel().ThrowIfAborted();
  if (ready != 0 || !give_up_ || !give_up_()) return;
  connections_.abort_channel().Abort("gave up waiting for rank " +
                                     std::to_string(peer));
  connections_.abort_channel().ThrowIfAborted();
}

}  // namespace dtrain

#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "engine/ranks/collectives.h"
#include "engine/ranks/rank_connections.h"

namespace dtrain {

/// The connections of one channel as blocking byte streams. A function that
/// waits throws Error(kFailed) if a rank failed, lost its connection, or this
/// one gave up. One thread.
class ChannelStreams {
 public:
  /// REQUIRES: `connections` outlives it. `give_up` may be empty.
  ChannelStreams(RankConnections& connections, int channel,
                 std::function<bool()> give_up);

  void Send(int peer, std::span<const std::byte> bytes) {
    Swap(peer, bytes, {});
  }
  void Receive(int peer, std::span<std::byte> bytes) { Swap(peer, {}, bytes); }
  /// Sends and receives concurrently. `out` and `in` may be the same memory if
  /// the peer sends a byte only after it received the one at the same offset.
  void Swap(int peer, std::span<const std::byte> out, std::span<std::byte> in);

 private:
  std::size_t SendSome(int peer, std::span<const std::byte> bytes);
  std::size_t ReceiveSome(int peer, std::span<std::byte> bytes);
  void Await(int peer, short events);

  RankConnections& connections_;
  const int channel_;
  const std::function<bool()> give_up_;
};

/// Collectives of the ranks of a trial on several machines, in a star: rank 0
/// receives the others' data, reduces it in rank order and sends the result
/// back, so its network link is the limit. A rank whose connection is lost has
/// failed.
class NetworkCollectives final : public Collectives {
 public:
  /// REQUIRES: `connections` outlives it.
  explicit NetworkCollectives(RankConnections& connections,
                              ChannelOptions options = {});

  void SetAborted(std::string_view reason) override {
    connections_.abort_channel().Abort(reason);
  }

 private:
  void Begin(const CollectiveCall& call);
  void Compare(const CollectiveCall& mine);
  void Reduce(const CollectiveCall& call, std::span<std::byte> values) override;
  void ReduceAll(const CollectiveCall& call, std::span<std::byte> values);
  void Exchange(const CollectiveCall& call, std::span<const std::byte> mine,
                std::span<const std::span<std::byte>> into) override;
  void CollectAndSend(std::span<const std::span<std::byte>> into);

  RankConnections& connections_;
  ChannelStreams streams_;
};

}  // namespace dtrain

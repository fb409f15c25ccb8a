#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "engine/ranks/collectives.h"
#include "engine/ranks/rank_connections.h"

namespace dtrain {

/// The connections of one lane as streams of bytes. What a function waits for,
/// it waits for until it comes, or throws Error(kFailed) because a rank failed:
/// said so, or lost its connection, or this one gave up. One thread.
class LaneStreams {
 public:
  /// REQUIRES: `connections` outlives it. `give_up` may be empty.
  LaneStreams(RankConnections& connections, int lane,
              std::function<bool()> give_up);

  void Send(int peer, std::span<const std::byte> bytes) {
    Swap(peer, bytes, {});
  }
  void Receive(int peer, std::span<std::byte> bytes) { Swap(peer, {}, bytes); }
  /// Sends and receives at one time, in memory that may be the same if the peer
  /// answers no byte before it has that of the same place.
  void Swap(int peer, std::span<const std::byte> out, std::span<std::byte> in);

 private:
  std::size_t SendSome(int peer, std::span<const std::byte> bytes);
  std::size_t ReceiveSome(int peer, std::span<std::byte> bytes);
  void Await(int peer, short events);

  RankConnections& connections_;
  const int lane_;
  const std::function<bool()> give_up_;
};

/// The collectives of the ranks of a trial on several machines. All goes by
/// rank 0: it takes what the others give, reduces it in their order and sends
/// it back, so that its connection is the bound. A rank whose connection is
/// lost has failed.
class NetworkGroup final : public Collectives {
 public:
  /// REQUIRES: `connections` outlives it.
  explicit NetworkGroup(RankConnections& connections,
                        GroupOptions options = {});

  void SetAborted(std::string_view reason) override {
    connections_.failures().Fail(reason);
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
  LaneStreams streams_;
};

}  // namespace dtrain

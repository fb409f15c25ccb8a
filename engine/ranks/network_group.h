#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "engine/ranks/collectives.h"
#include "engine/ranks/lane_streams.h"
#include "engine/ranks/rank_connections.h"

namespace dtrain {

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

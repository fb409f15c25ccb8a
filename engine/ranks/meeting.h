#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "engine/ranks/collective_call.h"
#include "engine/ranks/rank_mapping.h"

namespace dtrain {

/// One rank's part in the meetings of a lane: a meeting ends when all ranks
/// have come to it, and what each wrote before it, all may read after it. Used
/// by one thread, but for Abort.
class Meeting {
 public:
  /// `give_up` may be empty. REQUIRES: `mapping` outlives this.
  Meeting(const RankMapping& mapping, int lane, int rank,
          std::function<bool()> give_up);

  /// The first meeting of `call`. Throws Error(kFailed) on every rank if one of
  /// them came for another one, and as Meet does.
  void Begin(const CollectiveCall& call);
  /// Waits for all ranks. Throws Error(kFailed) if one of them failed, or if
  /// this one gave up, which counts as its failure.
  void Meet();
  /// See Collectives::SetAborted.
  void Abort(std::string_view reason);

 private:
  void ThrowIfAborted() const;
  void Compare(std::size_t turn);
  void Await(std::uint32_t held);
  bool Spin(std::uint32_t held) const;
  // "rank 2", of those that have not come to the meeting that is next.
  std::string Missing() const;

  const RankMapping& mapping_;
  LaneState& lane_;
  RankSlot& slot_;
  const int rank_;
  const std::function<bool()> give_up_;
  const bool spins_;
  std::size_t turn_ = 0;
};

}  // namespace dtrain

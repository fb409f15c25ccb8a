#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/ranks/collective_call.h"
#include "engine/ranks/collectives.h"
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

/// What one rank does between the meetings of one all-reduce. Values are cut
/// into segments that fit a staging buffer, and each segment into a share for
/// every rank, which reduces it for all: others stage theirs of it, and fetch
/// the result. A rank's own share is never staged, so it writes the result
/// there. T: float, double, int64.
template <typename T>
class AllReduction {
 public:
  /// `first_use` counts the uses of the staging buffers so far.
  AllReduction(const RankMapping& mapping, int lane, int rank,
               std::size_t first_use, std::span<T> values);

  std::size_t segments() const { return segments_; }

  /// Puts what the others reduce of a segment where they find it.
  void Stage(std::size_t segment) const;
  /// Reduces this rank's share. REQUIRES: all have staged the segment.
  void ReduceShare(std::size_t segment, ReduceOp op) const;
  /// Takes the others' shares. REQUIRES: all have reduced the segment.
  void Fetch(std::size_t segment) const;

 private:
  // A rank's share of a segment in `values_`, and where that starts in the
  // segment.
  std::span<T> Share(std::size_t segment, std::size_t rank) const;
  std::span<T> Slice(std::size_t start, std::size_t size) const;
  T* Staged(std::size_t segment, std::size_t rank) const;

  const RankMapping& mapping_;
  const int lane_;
  const std::size_t rank_;
  const std::size_t ranks_;
  const std::size_t first_use_;
  const std::span<T> values_;
  std::size_t segments_ = 0;
  // Values in a segment and in a share: all are cut alike, so that a share's
  // place in a buffer is the same rank's in all of them; the last ones may have
  // less, or nothing.
  std::size_t segment_ = 0;
  std::size_t share_ = 0;
};

/// The collectives of the ranks of a trial on one machine, over memory that
/// they share (see MakeRankMemory).
///
/// A rank that is killed cannot say that it failed: who sees it die, the
/// runner, ends the others, who else wait until `give_up` says so. A memory in
/// which a rank failed is of no more use.
class SharedGroup final : public Collectives {
 public:
  /// Maps the memory; the descriptor may be closed then. Throws Error(kFailed)
  /// if that fails or it is not the memory of `ranks` ranks.
  /// REQUIRES: 0 <= rank < ranks.
  SharedGroup(int memory_fd, int rank, int ranks, GroupOptions options = {});
  /// The same on what is mapped already. REQUIRES: `mapping` outlives this.
  SharedGroup(const RankMapping& mapping, int rank, GroupOptions options = {});

  void SetAborted(std::string_view reason) override { meeting_.Abort(reason); }

 private:
  void Reduce(const CollectiveCall& call, std::span<std::byte> values) override;
  void Exchange(const CollectiveCall& call, std::span<const std::byte> mine,
                std::span<const std::span<std::byte>> into) override;
  template <typename T>
  void ReduceAs(const CollectiveCall& call, std::span<std::byte> bytes);
  std::byte* Staging(int rank, std::size_t use) const;

  const std::optional<RankMapping> own_mapping_;
  const RankMapping& mapping_;
  const int lane_;
  Meeting meeting_;
  // How often the staging buffers were used, each in its turn: over all calls,
  // so that none begins with the buffer that others still read.
  std::size_t uses_ = 0;
};

}  // namespace dtrain

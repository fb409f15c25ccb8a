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
#include "engine/ranks/shared_memory.h"

namespace dtrain {

/// The barrier of a channel, as one rank sees it: no rank passes it before all
/// have reached it, and each sees everything that the others wrote before it.
/// One thread; Abort is thread-safe.
class SharedBarrier {
 public:
  /// `give_up` may be empty. REQUIRES: `memory` outlives this.
  SharedBarrier(const SharedMemory& memory, int channel, int rank,
                std::function<bool()> give_up);

  /// The first meeting of `call`. Throws Error(kFailed) on every rank if one of
  /// them came for another one, and as Meet does.
  void Begin(const CollectiveCall& call);
  /// Waits for all ranks. Throws Error(kFailed) if one of them failed, or if
  /// this one gave up, which aborts the trial as well.
  void Wait();
  /// See Collectives::SetAborted.
  void Abort(std::string_view reason);

 private:
  void ThrowIfAborted() const;
  void Compare(std::size_t turn);
  void Await(std::uint32_t completed);
  bool Spin(std::uint32_t completed) const;
  // "rank 2": the ranks that have not reached the current barrier.
  std::string Missing() const;

  const SharedMemory& memory_;
  ChannelState& channel_;
  RankArrivals& own_;
  const int rank_;
  const std::function<bool()> give_up_;
  const bool spins_;
  std::size_t turn_ = 0;
};

/// The steps of one all-reduce between its barriers, for one rank. Values are
/// divided into segments that fit a staging buffer, and each segment into one
/// share per rank. A rank reduces its share for all: the others stage their
/// values of it and fetch the result. A rank never stages its own share, so the
/// result takes that place. T: float, double, int64.
template <typename T>
class AllReduction {
 public:
  /// `first_use`: number of earlier uses of the staging buffers.
  AllReduction(const SharedMemory& memory, int channel, int rank,
               std::size_t first_use, std::span<T> values);

  std::size_t segments() const { return segments_; }

  /// Stages the other ranks' shares of a segment.
  void Stage(std::size_t segment) const;
  /// Reduces this rank's share. REQUIRES: all have staged the segment.
  void ReduceShare(std::size_t segment, ReduceOp op) const;
  /// Fetches the other ranks' shares. REQUIRES: all have reduced the segment.
  void Fetch(std::size_t segment) const;

 private:
  // A rank's share of a segment in `values_`.
  std::span<T> Share(std::size_t segment, std::size_t rank) const;
  std::span<T> Slice(std::size_t start, std::size_t size) const;
  T* Staged(std::size_t segment, std::size_t rank) const;

  const SharedMemory& memory_;
  const int channel_;
  const std::size_t rank_;
  const std::size_t ranks_;
  const std::size_t first_use_;
  const std::span<T> values_;
  std::size_t segments_ = 0;
  // Values in a segment and in a share. All ranks divide alike, so a rank's
  // share has the same place in every buffer; the last ones may be shorter or
  // empty.
  std::size_t segment_ = 0;
  std::size_t share_ = 0;
};

/// Collectives of the ranks of a trial on one machine, through shared memory
/// (see MakeSharedMemory).
///
/// A rank that is killed cannot report it: the runner, which sees it die, kills
/// the others, which otherwise wait until `give_up` returns true. A memory in
/// which a rank has failed cannot be used again.
class SharedCollectives final : public Collectives {
 public:
  /// Maps the memory; the descriptor may be closed afterwards. Throws
  /// Error(kFailed) if that fails or it is not the memory of `ranks` ranks.
  /// REQUIRES: 0 <= rank < ranks.
  SharedCollectives(int memory_fd, int rank, int ranks,
                    ChannelOptions options = {});
  /// Uses a mapping. REQUIRES: `memory` outlives this.
  SharedCollectives(const SharedMemory& memory, int rank,
                    ChannelOptions options = {});

  void SetAborted(std::string_view reason) override { barrier_.Abort(reason); }

 private:
  void Reduce(const CollectiveCall& call, std::span<std::byte> values) override;
  void Exchange(const CollectiveCall& call, std::span<const std::byte> mine,
                std::span<const std::span<std::byte>> into) override;
  template <typename T>
  void ReduceAs(const CollectiveCall& call, std::span<std::byte> bytes);
  std::byte* Staging(int rank, std::size_t use) const;

  const std::optional<SharedMemory> own_memory_;
  const SharedMemory& memory_;
  const int channel_;
  SharedBarrier barrier_;
  // Number of uses of the staging buffers, alternately, by all calls so far: a
  // call must not begin with the buffer that other ranks still read.
  std::size_t uses_ = 0;
};

}  // namespace dtrain

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ranks/collective_call.h"

namespace dtrain {

struct GroupOptions {
  /// 0 to kLanes - 1. Groups of different lanes do not hear of each other, but
  /// for SetAborted.
  int lane = 0;
  /// Asked about every 100 ms while a rank waits, by the thread that waits:
  /// whether to wait no longer. Empty: for as long as it takes.
  std::function<bool()> give_up;
};

/// One rank's part in the collectives of the ranks of a trial.
///
/// Each function is a collective: all ranks call the same ones in the same
/// order, of the same sizes, and none returns before all have called it; who
/// is alone is done at once. If they call different ones, each of them throws
/// Error(kFailed) that names both calls, nothing is written, and it counts as a
/// failure.
///
/// Results are, to the bit, the same on every rank and in every run: values are
/// combined in the order of the ranks.
///
/// A rank that fails says so by SetAborted; who waits for it, or calls anything
/// later, in whatever lane, then throws Error(kFailed): "rank 1 failed: …".
/// After an Error of waiting, what a collective was to write is undefined, and
/// the group of no more use.
///
/// Used by one thread at a time; SetAborted may be called by any. Two threads
/// of a rank that call collectives at one time need two groups with lanes of
/// their own.
class Collectives {
 public:
  Collectives(int rank, int ranks);
  virtual ~Collectives() = default;
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  /// Waits until all ranks have come.
  void Barrier();

  /// Replaces each of `values` by what `op` makes of those of all ranks. A
  /// minimum or maximum with a NaN is NaN; sums and products of int64 wrap
  /// around.
  void AllReduce(std::span<float> values, ReduceOp op = ReduceOp::kSum);
  void AllReduce(std::span<double> values, ReduceOp op = ReduceOp::kSum);
  void AllReduce(std::span<std::int64_t> values, ReduceOp op = ReduceOp::kSum);

  /// Replaces `bytes` by those of `root`.
  void Broadcast(std::span<std::byte> bytes, int root);
  /// The text of `root`, of whatever length; that of the others is not read.
  std::string BroadcastText(std::string text, int root);

  /// Writes what all ranks give, `mine`, in their order, to `all`; `mine` may
  /// be this rank's part of `all`. REQUIRES: `all` has `ranks` times the size
  /// of `mine`.
  void AllGather(std::span<const std::byte> mine, std::span<std::byte> all);
  /// The texts of all ranks, each of whatever length, in their order.
  std::vector<std::string> AllGatherText(std::string_view mine);

  /// Says that this rank fails and why, in one line of at most 1000 bytes. The
  /// first rank to say it is the one that the others name. Not a collective.
  virtual void SetAborted(std::string_view reason) = 0;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

 private:
  // All-reduces the values of `call.type` that `values` consists of.
  virtual void Reduce(const CollectiveCall& call,
                      std::span<std::byte> values) = 0;
  // Every rank has `into` for what each rank gives, of the same sizes, its own
  // `mine` among them.
  virtual void Exchange(const CollectiveCall& call,
                        std::span<const std::byte> mine,
                        std::span<const std::span<std::byte>> into) = 0;
  void BroadcastAs(const CollectiveCall& call, std::span<std::byte> bytes);

  const int rank_;
  const int ranks_;
};

}  // namespace dtrain

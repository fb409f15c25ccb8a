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

struct ChannelOptions {
  /// 0 to kChannels - 1. Channels are independent, except for SetAborted.
  int channel = 0;
  /// Called about every 100 ms by a thread that waits; true ends the waiting.
  /// Empty: waits without limit.
  std::function<bool()> give_up;
};

/// Collective operations of the ranks of a trial, as called by one of them.
///
/// Each function is a collective: all ranks call the same functions in the same
/// order with the same sizes, and none returns before all have called it; a
/// single rank returns at once. If they call different ones, all throw
/// Error(kFailed) that names both calls, nothing is written, and the trial
/// counts as aborted.
///
/// Results are bitwise identical on every rank and in every run: values are
/// combined in rank order.
///
/// A rank that fails calls SetAborted. Ranks that wait for it, or call a
/// collective later in any channel, then throw Error(kFailed): "rank 1 failed:
/// …". After an error the outputs are undefined and no more collectives can be
/// called.
///
/// One thread at a time; SetAborted is thread-safe. Two threads of a rank that
/// call collectives concurrently need a channel each.
class Collectives {
 public:
  Collectives(int rank, int ranks);
  virtual ~Collectives() = default;
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  /// Waits until all ranks have called it.
  void Barrier();

  /// Replaces each value by the combination of all ranks' values. A minimum or
  /// maximum with a NaN is NaN; sums and products of int64 wrap around.
  void AllReduce(std::span<float> values, ReduceOp op = ReduceOp::kSum);
  void AllReduce(std::span<double> values, ReduceOp op = ReduceOp::kSum);
  void AllReduce(std::span<std::int64_t> values, ReduceOp op = ReduceOp::kSum);

  /// Replaces `bytes` by those of `root`.
  void Broadcast(std::span<std::byte> bytes, int root);
  /// Returns the text of `root`, of any length; other ranks' texts are ignored.
  std::string BroadcastText(std::string text, int root);

  /// Concatenates `mine` of all ranks, in rank order, in `all`; `mine` may be
  /// this rank's part of `all`. REQUIRES: `all` has `ranks` times the size of
  /// `mine`.
  void AllGather(std::span<const std::byte> mine, std::span<std::byte> all);
  /// Returns the texts of all ranks, of any lengths, in rank order.
  std::vector<std::string> AllGatherText(std::string_view mine);

  /// Reports that this rank failed, in one line of at most 1000 bytes. The
  /// other ranks' errors name the first rank that called it. Not a collective.
  virtual void SetAborted(std::string_view reason) = 0;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

 private:
  // All-reduces `values`, which are of `call.type`.
  virtual void Reduce(const CollectiveCall& call,
                      std::span<std::byte> values) = 0;
  // Copies each rank's `mine` to its place in every rank's `into`. Sizes are
  // the same on all ranks.
  virtual void Exchange(const CollectiveCall& call,
                        std::span<const std::byte> mine,
                        std::span<const std::span<std::byte>> into) = 0;
  void BroadcastAs(const CollectiveCall& call, std::span<std::byte> bytes);

  const int rank_;
  const int ranks_;
};

}  // namespace dtrain

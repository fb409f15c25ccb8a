#pragma once

#include <cstddef>
#include <span>

#include "engine/ranks/collective_call.h"
#include "engine/ranks/rank_mapping.h"

namespace dtrain {

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

}  // namespace dtrain

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dtrain {

/// Operation by which AllReduce combines the values of all ranks.
enum class ReduceOp : std::uint8_t { kSum, kProduct, kMin, kMax };

/// A rank's collective call. Ranks compare theirs before they exchange data.
struct CollectiveCall {
  enum class Kind : std::uint8_t {
    kBarrier,
    kAllReduce,
    kBroadcast,
    kBroadcastText,
    kAllGather,
    kAllGatherText,
  };
  enum class Type : std::uint8_t { kBytes, kFloat, kDouble, kInt64 };

  Kind kind = Kind::kBarrier;
  Type type = Type::kBytes;
  ReduceOp op = ReduceOp::kSum;
  std::uint8_t root = 0;
  std::uint64_t bytes = 0;

  bool operator==(const CollectiveCall&) const = default;
};

/// `call` for messages: "an all-reduce (sum of float32) of 4096 bytes".
std::string Describe(const CollectiveCall& call);

/// The error message if rank 0 calls `first` and `rank` calls `other`.
std::string DescribeDifference(const CollectiveCall& first, int rank,
                               const CollectiveCall& other);

/// Reduces `sources` element by element into `into`, from the first source to
/// the last: ((source 0 op source 1) op source 2) … A minimum or maximum with a
/// NaN is NaN; sums and products of int64 wrap around. T: float, double, int64.
/// REQUIRES: at least two sources, each of the size of `into`, none of which
/// overlaps it.
template <typename T>
void Reduce(std::span<const T* const> sources, ReduceOp op, std::span<T> into);

}  // namespace dtrain

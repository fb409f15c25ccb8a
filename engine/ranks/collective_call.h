#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dtrain {

/// How AllReduce makes one value of those of all ranks.
enum class ReduceOp : std::uint8_t { kSum, kProduct, kMin, kMax };

/// What a rank calls, for the others to compare with what they call.
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

/// `call` for people: "an all-reduce (sum of float32) of 4096 bytes".
std::string Describe(const CollectiveCall& call);

/// Why the ranks cannot go on if rank 0 calls `first`, and `rank` `other`.
std::string DescribeDifference(const CollectiveCall& first, int rank,
                               const CollectiveCall& other);

/// Writes to `into` what `op` makes of the values of `sources`, each of which
/// has as many as `into`, from the first source to the last: for any element
/// ((source 0 op source 1) op source 2) … A minimum or maximum with a NaN is
/// NaN; sums and products of int64 wrap around. T: float, double, int64.
/// REQUIRES: at least two sources, none of which overlaps `into`.
template <typename T>
void Reduce(std::span<const T* const> sources, ReduceOp op, std::span<T> into);

}  // namespace dtrain

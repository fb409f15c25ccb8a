#pragma once

#include <cstdint>
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

}  // namespace dtrain

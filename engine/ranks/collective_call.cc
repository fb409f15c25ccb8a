// What collective calls have in common whichever way data travels: their
// description, by which ranks compare calls before they exchange data, and the
// arithmetic of reductions. Values are combined from the first source to the
// last, never in the order in which they arrive, because floating-point sums
// depend on the order. Each block of results stays in the first-level cache
// until all sources are in it, so it goes to memory once and not for each
// source.

#include "engine/ranks/collective_call.h"

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstdint>

namespace dtrain {
namespace {

std::string OpName(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kMin:
      return "minimum";
    case ReduceOp::kMax:
      return "maximum";
  }
  return "unknown operation";
}

std::string TypeName(CollectiveCall::Type type) {
  switch (type) {
    case CollectiveCall::Type::kBytes:
      return "bytes";
    case CollectiveCall::Type::kFloat:
      return "float32";
    case CollectiveCall::Type::kDouble:
      return "float64";
    case CollectiveCall::Type::kInt64:
      return "int64";
  }
  return "unknown type";
}

}  // namespace

std::string Describe(const CollectiveCall& call) {
  const std::string size = " of " + std::to_string(call.bytes) + " bytes";
  const std::string from = " from rank " + std::to_string(call.root);
  switch (call.kind) {
    case CollectiveCall::Kind::kBarrier:
      return "a barrier";
    case CollectiveCall::Kind::kAllReduce:
      return "an all-reduce (" + OpName(call.op) + " of " +
             TypeName(call.type) + ")" + size;
    case CollectiveCall::Kind::kBroadcast:
      return "a broadcast" + size + from;
    case CollectiveCall::Kind::kBroadcastText:
      return "a broadcast of a text" + from;
    case CollectiveCall::Kind::kAllGather:
      return "an all-gather" + size + " a rank";
    case CollectiveCall::Kind::kAllGatherText:
      return "an all-gather of texts";
  }
  return "an unknown collective";
}

std::string DescribeDifference(const CollectiveCall& first, int rank,
                               const CollectiveCall& other) {
  return "the ranks of the trial called different collectives: rank 0 called " +
         Describe(first) + ", but rank " + std::to_string(rank) + " called " +
         Describe(other);
}

namespace {

// Signed overflow is undefined; unsigned arithmetic wraps around.
struct Add {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::integral<T>) {
      return static_cast<T>(static_cast<std::uint64_t>(a) +
                            static_cast<std::uint64_t>(b));
    } else {
      return a + b;
    }
  }
};

struct Multiply {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::integral<T>) {
      return static_cast<T>(static_cast<std::uint64_t>(a) *
                            static_cast<std::uint64_t>(b));
    } else {
      return a * b;
    }
  }
};

// A NaN is the only value that differs from itself; it is propagated.
struct Least {
  template <typename T>
  static T Apply(T a, T b) {
    return b < a || b != b ? b : a;
  }
};

struct Greatest {
  template <typename T>
  static T Apply(T a, T b) {
    return a < b || b != b ? b : a;
  }
};

// Values per step. The compiler knows the number and vectorizes the inner loop.
template <typename T>
constexpr std::size_t kStep = 64 / sizeof(T);

template <typename Op, typename T>
void Combine(const T* __restrict a, const T* __restrict b, std::span<T> into) {
  T* __restrict out = into.data();
  std::size_t i = 0;
  for (; i + kStep<T> <= into.size(); i += kStep<T>) {
    for (std::size_t j = i; j < i + kStep<T>; ++j)
      out[j] = Op::Apply(a[j], b[j]);
  }
  for (; i < into.size(); ++i) out[i] = Op::Apply(a[i], b[i]);
}

template <typename Op, typename T>
void CombineInto(const T* __restrict from, std::span<T> into) {
  T* __restrict out = into.data();
  std::size_t i = 0;
  for (; i + kStep<T> <= into.size(); i += kStep<T>) {
    for (std::size_t j = i; j < i + kStep<T>; ++j) {
      out[j] = Op::Apply(out[j], from[j]);
    }
  }
  for (; i < into.size(); ++i) out[i] = Op::Apply(out[i], from[i]);
}

template <typename Op, typename T>
void ReduceBy(std::span<const T* const> sources, std::span<T> into) {
  // A block stays in the first-level cache between the sources.
  constexpr std::size_t kBlock = 8192 / sizeof(T);
  for (std::size_t start = 0; start < into.size(); start += kBlock) {
    const std::span<T> block =
        into.subspan(start, std::min(kBlock, into.size() - start));
    Combine<Op>(sources[0] + start, sources[1] + start, block);
    for (const T* source : sources.subspan(2)) {
      CombineInto<Op>(source + start, block);
    }
  }
}

}  // namespace

template <typename T>
void Reduce(std::span<const T* const> sources, ReduceOp op, std::span<T> into) {
  assert(sources.size() >= 2);
  switch (op) {
    case ReduceOp::kSum:
      return ReduceBy<Add>(sources, into);
    case ReduceOp::kProduct:
      return ReduceBy<Multiply>(sources, into);
    case ReduceOp::kMin:
      return ReduceBy<Least>(sources, into);
    case ReduceOp::kMax:
      return ReduceBy<Greatest>(sources, into);
  }
}

template void Reduce(std::span<const float* const>, ReduceOp, std::span<float>);
template void Reduce(std::span<const double* const>, ReduceOp,
                     std::span<double>);
template void Reduce(std::span<const std::int64_t* const>, ReduceOp,
                     std::span<std::int64_t>);

}  // namespace dtrain

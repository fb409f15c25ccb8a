#pragma once

// Rules of pooling and ReLU, the same on every processor. A Value is a float or
// a vector of floats, a Place an int or a vector of ints, as the kernel has
// them. All functions are inlined into their callers: the linker must not keep
// a copy that was compiled for other processors.

#ifdef __CUDACC__
#define DTRAIN_INLINE __host__ __device__ __forceinline__
#else
#define DTRAIN_INLINE [[gnu::always_inline]] inline
#endif

namespace dtrain {

/// Value of `kept` where ReLU is inactive; smaller values are positions in a
/// pooling window, in reading order.
constexpr int kClosed = 4;

/// First maximum of the four; the last NaN if there is one. `which` is its
/// position.
template <typename Value, typename Place>
DTRAIN_INLINE Value LargestOfWindow(const Value (&value)[4], Place& which) {
  Value best = value[0];
  which = Place{};
#ifndef __CUDACC__
#pragma GCC unroll 3
#endif
  for (int i = 1; i < 4; ++i) {
    const Place better = (value[i] > best) | (value[i] != value[i]);  // NOLINT
    best = better ? value[i] : best;
    which = better ? Place{} + i : which;
  }
  return best;
}

/// Nonzero where ReLU is inactive: not above zero, and not NaN.
template <typename Place, typename Value>
DTRAIN_INLINE Place ClosedByRelu(Value value, bool relu) {
  return (value <= Value{}) & -static_cast<int>(relu);
}

}  // namespace dtrain

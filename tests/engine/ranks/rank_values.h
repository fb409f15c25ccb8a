#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace dtrain {

/// What `rank` gives to the call number `call`: numbers of very different
/// magnitude, so that another order of a sum has other bits.
template <typename T>
std::vector<T> RankValues(int rank, std::size_t size, int call = 0) {
  // Knuth's generator: the standard's take too long without optimisation.
  std::uint64_t state = static_cast<std::uint64_t>(call * 100 + rank + 1);
  std::vector<T> values(size);
  for (T& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto number = static_cast<double>(static_cast<int>(state >> 32));
    value = static_cast<T>(number / (1U << (state >> 20) % 20));
  }
  return values;
}

/// `combine` over the values of all ranks, one after the other.
template <typename T, typename Combine = std::plus<T>>
std::vector<T> Combined(int ranks, std::size_t size, int call = 0,
                        Combine combine = {}) {
  std::vector<T> all = RankValues<T>(0, size, call);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<T> values = RankValues<T>(rank, size, call);
    for (std::size_t i = 0; i < size; ++i) all[i] = combine(all[i], values[i]);
  }
  return all;
}

/// The bytes of `values`, to be compared to the bit.
template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
}

/// A text that is `rank`'s and nobody else's.
inline std::string RankText(int rank, std::size_t size, int call = 0) {
  // Of a length that is in step with nobody's buffers.
  std::string piece(997, ' ');
  for (std::size_t i = 0; i < piece.size(); ++i) {
    piece[i] =
        static_cast<char>(i * 7 + i / 99 + static_cast<std::size_t>(rank) * 31 +
                          static_cast<std::size_t>(call) * 5);
  }
  std::string text;
  while (text.size() < size) text += piece;
  text.resize(size);
  return text;
}

}  // namespace dtrain

// The conversions from the generator's 32-bit words to numbers are those of
// numpy.random.RandomState: random_sample, randint by mask and rejection, and
// bytes. tests/engine/base/rng_test.cc has values from numpy.

#include "engine/base/rng.h"

#include <array>
#include <cstddef>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "engine/base/uuid.h"

namespace dtrain {

double Rng::Uniform() {
  const std::uint32_t a = engine_() >> 5;
  const std::uint32_t b = engine_() >> 6;
  return (a * 67108864.0 + b) / 9007199254740992.0;
}

double Rng::Uniform(double low, double high) {
  return low + Uniform() * (high - low);
}

std::uint64_t Rng::Below(std::uint64_t n) {
  const std::uint64_t max = n - 1;
  if (max == 0) return 0;
  std::uint64_t mask = max;
  for (int shift = 1; shift < 64; shift *= 2) mask |= mask >> shift;
  const bool wide = max > std::numeric_limits<std::uint32_t>::max();
  while (true) {
    // A wide draw has its high word first, as numpy has it.
    std::uint64_t draw = engine_();
    if (wide) draw = (draw << 32) | engine_();
    if ((draw & mask) <= max) return draw & mask;
  }
}

std::string Rng::Uuid() {
  std::array<std::byte, 16> bytes{};
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    const std::uint32_t word = engine_();
    for (std::size_t j = 0; j < 4; ++j) {
      bytes[i + j] = static_cast<std::byte>(word >> (8 * j));
    }
  }
  return FormatUuid(bytes);
}

std::string Rng::Save() const {
  std::ostringstream out;
  out << engine_;
  return out.str();
}

void Rng::Load(const std::string& state) {
  std::istringstream in(state);
  std::mt19937 engine;
  if (!(in >> engine)) {
    throw std::invalid_argument("the random state is damaged");
  }
  engine_ = engine;
}

}  // namespace dtrain

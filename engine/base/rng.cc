// The conversions from the generator's 32-bit words to numbers are those of
// numpy.random.RandomState: random_sample, randint by mask and rejection, and
// bytes. tests/engine/base/rng_test.cc has values from numpy.

#include "engine/base/rng.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <stdexcept>

#include <sys/random.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {

namespace {

void FillRandomly(std::span<std::byte> bytes) {
  // getrandom returns up to 256 bytes whole or not at all.
  if (::getrandom(bytes.data(), bytes.size(), 0) !=
      static_cast<ssize_t>(bytes.size())) {
    throw Error(ErrorKind::kFailed,
                "cannot get random numbers from the kernel");
  }
}

}  // namespace

std::string RandomHex(std::size_t bytes) {
  std::vector<std::byte> random(bytes);
  FillRandomly(random);
  return ToHex(random);
}

std::string FormatUuid(std::array<std::byte, 16> random) {
  random[6] = (random[6] & std::byte{0x0f}) | std::byte{0x40};
  random[8] = (random[8] & std::byte{0x3f}) | std::byte{0x80};
  std::string text = ToHex(random);
  for (const std::size_t position : {20, 16, 12, 8}) {
    text.insert(position, 1, '-');
  }
  return text;
}

std::string RandomUuid() {
  std::array<std::byte, 16> bytes{};
  FillRandomly(bytes);
  return FormatUuid(bytes);
}

bool IsUuid(std::string_view text) {
  constexpr std::string_view kForm = "00000000-0000-0000-0000-000000000000";
  const auto fits = [](char c, char form) {
    const bool is_digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    return form == '-' ? c == '-' : is_digit;
  };
  return std::ranges::equal(text, kForm, fits);
}

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

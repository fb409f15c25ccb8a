#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace dtrain {

/// One step of splitmix64 (Steele, Lea and Flood, 2014): a mixing function that
/// maps neighbouring values to unrelated ones.
constexpr std::uint64_t SplitMix64(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

/// The random stream of an experiment: MT19937 with the conversions of
/// numpy.random.RandomState, so that the same seed gives the same search as
/// Determined and the numbers can be checked with numpy. The standard's
/// distributions are not used: their output is not fixed by the standard.
class Rng {
 public:
  explicit Rng(std::uint32_t seed) : engine_(seed) {}

  /// Uniform in [0, 1) with 53 bits, from two draws.
  double Uniform();
  /// Uniform in [low, high).
  double Uniform(double low, double high);
  /// Uniform in {0, …, n−1} by mask and reject; draws nothing if n is 1.
  /// REQUIRES: n ≥ 1.
  std::uint64_t Below(std::uint64_t n);
  /// A UUID of 16 random bytes (four draws, little-endian).
  std::string Uuid();

  /// Converts the state to text and back. Load throws std::invalid_argument.
  std::string Save() const;
  void Load(const std::string& state);

 private:
  std::mt19937 engine_;
};

/// Returns the version 4 UUID (RFC 4122) with these random bytes, in lower-case
/// hex; 6 of the 128 bits are replaced by the version and the variant.
std::string FormatUuid(std::array<std::byte, 16> random);

/// Returns a random UUID from the kernel's generator: the random streams of an
/// experiment and its trials are not touched. Throws Error(kFailed).
std::string RandomUuid();

/// Returns this many random bytes from the kernel's generator, at most 256, as
/// hex digits. Throws Error(kFailed).
std::string RandomHex(std::size_t bytes);

/// True for a UUID in lower-case hex of any version.
bool IsUuid(std::string_view text);

}  // namespace dtrain

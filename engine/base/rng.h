#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace dtrain {

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
  /// A version 4 UUID from 16 random bytes (four draws, little-endian).
  std::string Uuid();

  /// The engine's state as text, and back (throws std::invalid_argument).
  std::string Save() const;
  void Load(const std::string& state);

 private:
  std::mt19937 engine_;
};

}  // namespace dtrain

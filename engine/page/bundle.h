#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// A JSON document with columns of numbers beside it, in a form that compresses
/// well and that the page reads without parsing:
///
///   "DTRN" · u32 length of the document · the document · columns
///
/// The document refers to a column by the value that a function here returned:
/// {"at": offset, "n": count, "as": "u32" | "f32" | "f64", "delta": true}.
/// Numbers are little-endian with their bytes separated: first the lowest bytes
/// of all numbers, and so on. In a delta column each number is the difference
/// from the one before it (modulo 2^32).
class Bundle {
 public:
  /// Adds whole numbers as differences, for columns that grow steadily. Numbers
  /// above 2^32 - 1 make it a column of doubles.
  nlohmann::json Deltas(std::span<const std::int64_t> numbers);
  /// Adds whole numbers. Those above 2^32 - 1 make it a column of doubles.
  nlohmann::json Integers(std::span<const std::int64_t> numbers);
  /// Adds numbers in single precision. NaN and infinities stay.
  nlohmann::json Floats(std::span<const double> numbers);
  /// Adds numbers in full precision.
  nlohmann::json Doubles(std::span<const double> numbers);

  /// Returns the bundle of `document` and all columns so far.
  std::string Finish(const nlohmann::json& document) const;

 private:
  nlohmann::json Whole(std::span<const std::int64_t> numbers, bool delta);

  std::string columns_;
};

/// Returns `value`, and each element of an array, with an integer that is not
/// exact in JavaScript, beyond 2^53, as the text of its digits.
nlohmann::json ExactIntegers(const nlohmann::json& value);

/// Compresses `bytes` as gzip (RFC 1952). Throws Error(kFailed).
std::string Gzip(std::string_view bytes);

/// Base64 of `bytes`, with padding (RFC 4648).
std::string Base64(std::string_view bytes);

}  // namespace dtrain

#include "engine/base/rounding.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "engine/base/text.h"

namespace dtrain {
namespace {

constexpr double kMaxExact = 9007199254740992.0;  // 2^53
constexpr int kAllDigits = 17;                    // of any double

std::string Print(const char* format, int digits, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, digits, value);
  return text.data();
}

bool IsWhole(double value) { return std::floor(value) == value; }

}  // namespace

std::string FormatRounded(double value, int digits) {
  if (!std::isfinite(value)) return FormatNumber(value);
  if (std::abs(value) > kMaxExact) return Print("%.*g", digits, value);
  if (IsWhole(value)) return Print("%.*f", 0, value);
  std::string text = Print("%.*g", digits, value);
  while (digits < kAllDigits && IsWhole(std::strtod(text.c_str(), nullptr))) {
    text = Print("%.*g", ++digits, value);
  }
  return text;
}

std::string CountText(std::int64_t count, std::string_view noun) {
  return CountText(count, noun, std::string(noun) + "s");
}

std::string CountText(std::int64_t count, std::string_view one,
                      std::string_view several) {
  return std::to_string(count) + " " + std::string(count == 1 ? one : several);
}

double DropNoise(double value) {
  if (!std::isfinite(value)) return value;
  return std::strtod(Print("%.*g", 12, value).c_str(), nullptr);
}

}  // namespace dtrain

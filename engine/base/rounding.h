#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dtrain {

/// Returns `value` for people, with `digits` significant digits. Integers up to
/// 2^53 are in full. Another number has as many more digits as it takes to
/// differ from every integer: 0.9999995 is not 1.
std::string FormatRounded(double value, int digits);

/// "1 trial", "3 trials".
std::string CountText(std::int64_t count, std::string_view noun);

/// "1 trial runs", "3 trials run".
std::string CountText(std::int64_t count, std::string_view one,
                      std::string_view several);

/// Returns `value` rounded to 12 significant digits: a computed value, such as
/// the difference of two decimals, without the noise of its last digits.
double DropNoise(double value);

}  // namespace dtrain

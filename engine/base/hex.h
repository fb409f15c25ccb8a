#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// Returns `bytes` as lower-case hex digits.
std::string ToHex(std::span<const std::byte> bytes);

/// Converts the result of ToHex back; nothing for any other text.
std::optional<std::vector<std::byte>> FromHex(std::string_view text);

}  // namespace dtrain

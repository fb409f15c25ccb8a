#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// `bytes` as lower-case hex digits.
std::string ToHex(std::span<const std::byte> bytes);

/// The reverse, or nothing if `text` is no such text.
std::optional<std::vector<std::byte>> FromHex(std::string_view text);

}  // namespace dtrain

#pragma once

#include <string>
#include <string_view>

namespace dtrain {

/// Returns JSON with bare NaN, Infinity and -Infinity, which Python's json
/// module writes and JSON does not have, as the strings of `JsonNumber`.
std::string QuoteNonFinite(std::string_view text);

}  // namespace dtrain

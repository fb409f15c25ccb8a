#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dtrain {

/// The parts of "SCHEME://[USER@]HOST[:PORT]REST", without the user.
struct WebAddress {
  std::string scheme;  // lowercase
  std::string host;    // with the port
  std::string rest;    // path, query and fragment
};

/// Returns nothing if `text` is not an address. libcurl checks it more strictly
/// when it is used.
std::optional<WebAddress> ParseWebAddress(std::string_view text);

/// Stands for a path that is not shown.
inline constexpr std::string_view kHiddenPath = "/...";

/// Returns scheme and host of an address whose path may be secret, followed by
/// kHiddenPath if it has more; "..." if it is not an address.
std::string ShownUrl(std::string_view text);

}  // namespace dtrain

#include "engine/base/web_address.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <system_error>

namespace dtrain {
namespace {

bool IsScheme(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
  });
}

// True for "", ":" and ":80".
bool IsPort(std::string_view text) {
  if (text.empty() || text == ":") return true;
  if (text.front() != ':') return false;
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + 1, end, port);
  return error == std::errc() && rest == end;
}

// `text` is the host and port, without the user.
bool IsHost(std::string_view text) {
  const std::size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  if (bracket == text.npos) return false;  // an IPv6 address that is not closed
  const std::size_t colon = std::min(text.find(':', bracket), text.size());
  constexpr std::string_view kForbidden = " !@{}\\$'\"^`*<>=;,";
  return colon > 0 &&
         text.substr(0, colon).find_first_of(kForbidden) == text.npos &&
         IsPort(text.substr(colon));
}

}  // namespace

std::optional<WebAddress> ParseWebAddress(std::string_view text) {
  constexpr std::string_view kSeparator = "://";
  const bool printable = std::ranges::none_of(
      text, [](unsigned char c) { return c <= ' ' || c == 0x7F; });
  const std::size_t separator = text.find(kSeparator);
  if (!printable || separator == text.npos) return std::nullopt;
  WebAddress address;
  for (const unsigned char c : text.substr(0, separator)) {
    address.scheme += static_cast<char>(std::tolower(c));
  }
  text.remove_prefix(separator + kSeparator.size());
  const std::size_t end = std::min(text.find_first_of("/?#"), text.size());
  const std::string_view authority = text.substr(0, end);
  // npos + 1 is 0: without a user, all of it is the host.
  address.host = authority.substr(authority.rfind('@') + 1);
  address.rest = text.substr(end);
  const bool valid = address.scheme == "file"
                         ? address.host.empty() || address.host == "localhost"
                         : IsHost(address.host);
  if (!IsScheme(address.scheme) || !valid) return std::nullopt;
  return address;
}

std::string ShownUrl(std::string_view text) {
  const auto address = ParseWebAddress(text);
  if (!address) return std::string(kHiddenPath.substr(1));
  const bool is_bare = address->rest.empty() || address->rest == "/";
  return address->scheme + "://" + address->host +
         std::string(is_bare ? "" : kHiddenPath);
}

}  // namespace dtrain

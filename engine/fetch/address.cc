// Addresses that data sets are fetched from. An address may hold a password,
// and messages get into logs: whatever is shown goes through ShownAddress,
// which leaves out what is before the last "@", even if the address is not
// valid.

#include "engine/fetch/address.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/data/data_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// The parts of "SCHEME://[USER@]HOST[:PORT]REST".
struct AddressParts {
  std::string scheme;  // lowercase
  std::string host;    // with the port, without the user
  std::string rest;    // path, query and fragment
};

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

// Returns nothing if `text` is not an address.
std::optional<AddressParts> ParseAddress(std::string_view text) {
  constexpr std::string_view kSeparator = "://";
  const bool printable = std::ranges::none_of(
      text, [](unsigned char c) { return c <= ' ' || c == 0x7F; });
  const std::size_t separator = text.find(kSeparator);
  if (!printable || separator == text.npos) return std::nullopt;
  AddressParts address;
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

[[noreturn]] void Refuse(const std::string& from, const std::string& fault) {
  throw Error(ErrorKind::kUsage,
              "--from: '" + EscapeForTerminal(from) + "' " + fault);
}

void RequireUsable(const std::string& text) {
  const auto address = ParseAddress(text);
  if (!address) {
    Refuse(ShownAddress(text),
           "is not a valid address; write https://HOST/PATH");
  }
  const std::string& scheme = address->scheme;
  if (scheme != "http" && scheme != "https" && scheme != "file") {
    Refuse(ShownAddress(text),
           "has an unsupported scheme; give http, https or file, or a "
           "directory");
  }
  if (address->rest.find_first_of("?#") != std::string::npos) {
    Refuse(ShownAddress(text),
           "has a '?' or '#', so it names no directory; remove that part");
  }
}

}  // namespace

std::string SourceAddress(const std::string& from,
                          const ReadVariable& variable) {
  std::string address = from;
  if (from.find("://") == std::string::npos) {
    const fs::path path = ExpandHome(from, variable);
    std::error_code error;
    if (!fs::exists(path, error)) {
      Refuse(from, "does not exist; give an existing directory or an address");
    }
    address = FileAddress(path);
  }
  RequireUsable(address);
  while (address.ends_with('/')) address.pop_back();
  return address;
}

std::string FileAddress(const fs::path& path) {
  std::string address = "file://";
  for (const char c : fs::absolute(path).lexically_normal().string()) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 ||
        std::string_view("/-._~").find(c) != std::string_view::npos) {
      address += c;
    } else {
      const std::array<std::byte, 1> bytes = {std::byte{byte}};
      address += "%" + ToHex(bytes);
    }
  }
  return address;
}

// If the address is not valid, where a password ends is not certain: everything
// before the last '@' is left out.
std::string ShownAddress(const std::string& text) {
  if (const auto address = ParseAddress(text)) {
    return address->scheme + "://" + address->host + address->rest;
  }
  const std::size_t at = text.rfind('@');
  return at == std::string::npos ? text : "..." + text.substr(at);
}

}  // namespace dtrain

// Addresses that data sets are fetched from. An address may hold a password,
// and messages get into logs: whatever is shown goes through ShownAddress,
// which leaves out what is before the last "@", even if the address is not
// valid.

#include "engine/fetch/address.h"

#include <array>
#include <cctype>
#include <string_view>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/base/web_address.h"
#include "engine/data/data_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void Refuse(const std::string& from, const std::string& fault) {
  throw Error(ErrorKind::kUsage,
              "--from: '" + EscapeForTerminal(from) + "' " + fault);
}

void RequireUsable(const std::string& text) {
  const auto address = ParseWebAddress(text);
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
  if (const auto address = ParseWebAddress(text)) {
    return address->scheme + "://" + address->host + address->rest;
  }
  const std::size_t at = text.rfind('@');
  return at == std::string::npos ? text : "..." + text.substr(at);
}

}  // namespace dtrain

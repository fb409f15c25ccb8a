#include "engine/fetch/address.h"

#include <array>
#include <cctype>
#include <memory>
#include <string_view>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/hex.h"
#include "engine/base/text.h"
#include "engine/fetch/curl_library.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

struct FreeUrl {
  void operator()(CURLU* url) const { Curl().url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, FreeUrl>;

// Null where `address` is none.
Url Parse(const std::string& address) {
  Url url(Curl().url());
  if (!url || Curl().url_set(url.get(), CURLUPART_URL, address.c_str(),
                             CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK) {
    return nullptr;
  }
  return url;
}

// Empty where the address has no such part.
std::string PartOf(const Url& url, CURLUPart part) {
  char* text = nullptr;
  if (Curl().url_get(url.get(), part, &text, 0) != CURLUE_OK) return "";
  const std::unique_ptr<char, decltype(&curl_free)> owner(text, Curl().free);
  return text;
}

[[noreturn]] void Refuse(const std::string& from, const std::string& what) {
  throw Error(ErrorKind::kUsage,
              "--from: '" + EscapeForTerminal(from) + "' " + what);
}

void RequireSound(const std::string& address) {
  const Url url = Parse(address);
  if (!url) {
    Refuse(ShownAddress(address), "is no address; write https://HOST/PATH");
  }
  const std::string scheme = PartOf(url, CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https" && scheme != "file") {
    Refuse(ShownAddress(address),
           "is an address of a kind that is not fetched from; give http, https "
           "or file, or a directory");
  }
  if (!PartOf(url, CURLUPART_QUERY).empty() ||
      !PartOf(url, CURLUPART_FRAGMENT).empty()) {
    Refuse(ShownAddress(address),
           "has a '?' or '#', so it names no directory; leave that out");
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
      Refuse(from, "is not there; name a directory that is, or an address");
    }
    address = FileAddress(path);
  }
  RequireSound(address);
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

std::string ShownAddress(const std::string& address) {
  const Url url = Parse(address);
  if (!url) {
    const std::size_t at = address.rfind('@');
    return at == std::string::npos ? address : "…" + address.substr(at);
  }
  Curl().url_set(url.get(), CURLUPART_USER, nullptr, 0);
  Curl().url_set(url.get(), CURLUPART_PASSWORD, nullptr, 0);
  return PartOf(url, CURLUPART_URL);
}

}  // namespace dtrain

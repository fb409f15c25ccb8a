// Any page that a browser shows can send requests to any port of this machine,
// and all users of the machine share its ports. So a request needs a token that
// only the reader of the terminal has. It is sent in a header: cookies are
// shared by all ports of a host. The other rules stop attacks through a browser
// before the token is looked at: DNS rebinding by the Host header, requests of
// foreign pages by the headers that browsers add and scripts cannot change.

#include "engine/serve/web_rules.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include <sys/random.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/sha256.h"

namespace dtrain {
namespace {

constexpr std::string_view kScheme = "Bearer ";

bool IsPort(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// True for "localhost", "127.0.0.1" and "[::1]", with or without a port.
bool IsLoopbackHost(std::string_view host) {
  for (const std::string_view name : {"localhost", "127.0.0.1", "[::1]"}) {
    if (!host.starts_with(name)) continue;
    const std::string_view rest = host.substr(name.size());
    if (rest.empty()) return true;
    return rest.front() == ':' && IsPort(rest.substr(1));
  }
  return false;
}

bool IsForeign(const WebRequest& request, PathClass path) {
  if (request.origin && *request.origin != "http://" + request.hosts[0]) {
    return true;
  }
  if (!request.fetch_site) return false;
  if (*request.fetch_site == "same-origin" || *request.fetch_site == "none") {
    return false;
  }
  // A link on a page of another port of this machine may open our page.
  return path != PathClass::kPage || *request.fetch_site != "same-site";
}

bool HasToken(const WebRequest& request, const WebRules& rules) {
  return request.authorization && request.authorization->starts_with(kScheme) &&
         AreEqualInConstantTime(
             std::string_view(*request.authorization).substr(kScheme.size()),
             rules.token);
}

WebReply Refuse(int status, std::string why) {
  return {.status = status, .body = std::move(why) + "\n"};
}

std::optional<WebReply> MethodRefusal(const WebRequest& request, PathClass path,
                                      const WebRules& rules) {
  const bool posts = path == PathClass::kControl;
  if (posts && !rules.control) {
    WebReply reply =
        Refuse(405, "this server is read-only; start it with --control");
    reply.headers.emplace_back("Allow", "");
    return reply;
  }
  if (posts ? request.method == "POST"
            : request.method == "GET" || request.method == "HEAD") {
    return std::nullopt;
  }
  WebReply reply = Refuse(405, request.method + " is not allowed here");
  reply.headers.emplace_back("Allow", posts ? "POST" : "GET, HEAD");
  return reply;
}

}  // namespace

// The rules against browsers come first: a foreign page must not learn from an
// answer whether a path exists or a token is right.
std::optional<WebReply> Refusal(const WebRequest& request, PathClass path,
                                const WebRules& rules) {
  if (request.hosts.size() != 1 || !IsLoopbackHost(request.hosts[0])) {
    return Refuse(421,
                  "this server answers requests to localhost only; open the "
                  "address that dtrain serve printed");
  }
  if (IsForeign(request, path)) {
    return Refuse(403, "requests of other sites are refused");
  }
  if (path == PathClass::kUnknown) return Refuse(404, "there is no such page");
  if (auto refusal = MethodRefusal(request, path, rules)) return refusal;
  if (path == PathClass::kPage) return std::nullopt;
  if (!HasToken(request, rules)) {
    WebReply reply =
        Refuse(401,
               "the token is missing or wrong; open the address that "
               "dtrain serve printed");
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
  }
  if (path == PathClass::kControl &&
      !request.content_type.starts_with("application/json")) {
    return Refuse(415, "expected Content-Type: application/json");
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> SecurityHeaders() {
  return {{"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; "
           "connect-src 'self'; img-src 'self'; base-uri 'none'; "
           "form-action 'none'; frame-ancestors 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cache-Control", "no-store"}};
}

std::optional<std::string> QueryValue(std::string_view query,
                                      std::string_view name) {
  for (const std::string& part : Split(query, '&')) {
    if (part.size() > name.size() && part.starts_with(name) &&
        part[name.size()] == '=') {
      return part.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

std::string NewToken() {
  std::array<std::byte, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) !=
      static_cast<ssize_t>(bytes.size())) {
    throw Error(ErrorKind::kFailed,
                "cannot get random numbers from the kernel");
  }
  return ToHex(bytes);
}

}  // namespace dtrain

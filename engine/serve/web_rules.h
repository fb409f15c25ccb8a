#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain {

/// A request of a browser or another program. Header values are as they were
/// sent; `hosts` has the value of each Host header.
struct WebRequest {
  std::string method;  // "GET"
  std::string path;    // "/api/experiments"
  std::string query;   // "from=3", without the question mark
  std::vector<std::string> hosts;
  std::optional<std::string> origin;
  std::optional<std::string> fetch_site;  // Sec-Fetch-Site
  std::optional<std::string> authorization;
  std::string content_type;
  std::string body;
};

struct WebReply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};
  bool gzip = false;    // the body is compressed
  bool stream = false;  // stays open for events; `body` is the first of them
};

/// Rules of a server that answers browsers of this machine only.
struct WebRules {
  std::string token;
  bool control = false;  // POST is allowed on the paths that change something
};

/// Classes of paths: pages contain no data, so they need no token.
enum class PathClass { kPage, kData, kControl, kUnknown };

/// Returns the refusal of a request that breaks a rule, else nothing. In this
/// order: 421 if Host is not a name of the loopback interface (with any port,
/// since ssh may forward another one), which defeats DNS rebinding; 403 for a
/// foreign Origin or Sec-Fetch-Site; 404; 405; 401 without the token; 415 for a
/// POST without JSON.
std::optional<WebReply> Refusal(const WebRequest& request, PathClass path,
                                const WebRules& rules);

/// The headers of every reply.
std::vector<std::pair<std::string, std::string>> SecurityHeaders();

/// Value of `name` in a query such as "from=3&after=7"; nothing if it is
/// missing. Values are not decoded: none of ours has special characters.
std::optional<std::string> QueryValue(std::string_view query,
                                      std::string_view name);

/// Returns a random token of 128 bits, in hex. Throws Error(kFailed).
std::string NewToken();

}  // namespace dtrain

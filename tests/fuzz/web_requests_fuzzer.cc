// Fuzzes the requests of the live page: whatever a client sends over a socket,
// only a request with the token and this machine's name is answered with data.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/os/unique_fd.h"
#include "engine/serve/web_server.h"
#include "tests/fuzz/fuzz_target.h"

namespace dtrain {
namespace {

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";
constexpr char kData[] = "data of the store";
constexpr int kMaxTurns = 200;

class Fixture {
 public:
  Fixture() {
    path_ = "/tmp/dtrain-fuzz-" + std::to_string(::getpid()) + ".sock";
    server_ = std::make_unique<WebServer>(
        ListenOnSocket(path_),
        [this](std::uint64_t, const WebRequest& request) {
          return Answer(request);
        });
  }
  ~Fixture() { std::filesystem::remove(path_); }

  // Sends the input, ends it, and returns the whole answer.
  std::string Exchange(std::string_view input) {
    sockaddr_un address{.sun_family = AF_UNIX};
    path_.copy(address.sun_path, path_.size());
    const UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    Require(::connect(client.get(), reinterpret_cast<sockaddr*>(&address),
                      sizeof(address)) == 0,
            "the server accepts connections");
    authorized_ = false;
    std::string answer;
    for (int turn = 0; turn < kMaxTurns; ++turn) {
      const ssize_t sent = ::send(client.get(), input.data(), input.size(),
                                  MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent > 0) input.remove_prefix(static_cast<std::size_t>(sent));
      if (input.empty()) ::shutdown(client.get(), SHUT_WR);
      server_->RunOnce();
      char part[4096];
      const ssize_t got =
          ::recv(client.get(), part, sizeof(part), MSG_DONTWAIT);
      if (got == 0) break;
      if (got > 0) answer.append(part, static_cast<std::size_t>(got));
    }
    return answer;
  }

  bool authorized() const { return authorized_; }

 private:
  std::optional<WebReply> Answer(const WebRequest& request) {
    const PathClass path = request.path == "/"          ? PathClass::kPage
                           : request.path == "/data"    ? PathClass::kData
                           : request.path == "/control" ? PathClass::kControl
                                                        : PathClass::kUnknown;
    const WebRules rules{.token = kToken, .control = true};
    if (auto refusal = Refusal(request, path, rules)) return refusal;
    if (path == PathClass::kPage) return WebReply{.body = "page"};
    Require(request.authorization &&
                request.authorization->find(kToken) != std::string::npos,
            "data are for a request with the token");
    Require(request.hosts.size() == 1, "a request names one host");
    Require(request.body.size() <= kMaxBodyBytes, "bodies are limited");
    authorized_ = true;
    const bool streams = QueryValue(request.query, "stream").has_value();
    return WebReply{.body = kData, .stream = streams};
  }

  std::string path_;
  std::unique_ptr<WebServer> server_;
  bool authorized_ = false;
};

}  // namespace

void CheckRequests(std::string_view input) {
  static Fixture fixture;
  const std::string answer = fixture.Exchange(input);
  Require(answer.empty() || answer.starts_with("HTTP/"), "an answer is HTTP");
  Require(fixture.authorized() || answer.find(kData) == std::string::npos,
          "an answer without the token has no data");
  Require(answer.find("Access-Control") == std::string::npos,
          "no other origin may read it");
}

}  // namespace dtrain

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  dtrain::CheckRequests(dtrain::ToText(data, size));
  return 0;
}

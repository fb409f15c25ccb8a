#include "tests/support/http_server.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>

namespace dtrain {
namespace {

constexpr char kHeadEnd[] = "\r\n\r\n";

// Returns the length of the body that a header announces.
std::size_t BodyLength(const HttpRequest& request) {
  const std::string length = request.Header("Content-Length");
  return length.empty() ? 0 : std::stoul(length);
}

HttpRequest Parse(const std::string& head) {
  HttpRequest request{.head = head};
  const std::size_t begin = head.find(' ') + 1;
  request.path = head.substr(begin, head.find(' ', begin) - begin);
  const std::string name = "Range: bytes=";
  const std::size_t range = head.find(name);
  if (range != std::string::npos) {
    request.from = std::stoll(head.substr(range + name.size()));
  }
  return request;
}

// Reads a request; its head is empty if it is not whole.
HttpRequest ReadRequest(int connection) {
  std::string text;
  std::array<char, 4096> buffer;
  while (true) {
    const std::size_t end = text.find(kHeadEnd);
    if (end != std::string::npos) {
      HttpRequest request = Parse(text.substr(0, end + 2));
      request.body = text.substr(end + 4);
      if (request.body.size() >= BodyLength(request)) return request;
    }
    const ssize_t got = ::recv(connection, buffer.data(), buffer.size(), 0);
    if (got <= 0) return {};
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

bool SendText(int connection, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent =
        ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string Head(const HttpAnswer& answer) {
  std::string head = "HTTP/1.1 " + answer.status + "\r\nConnection: close\r\n";
  for (const std::string& header : answer.headers) head += header + "\r\n";
  if (answer.length != -2) {
    const std::int64_t length =
        answer.length >= 0 ? answer.length
                           : static_cast<std::int64_t>(answer.body.size());
    head += "Content-Length: " + std::to_string(length) + "\r\n";
  }
  return head + "\r\n";
}

}  // namespace

std::string HttpRequest::Header(const std::string& name) const {
  const std::string line = "\r\n" + name + ": ";
  const std::size_t begin = head.find(line);
  if (begin == std::string::npos) return "";
  const std::size_t value = begin + line.size();
  return head.substr(value, head.find("\r\n", value) - value);
}

HttpServer::HttpServer(Handler handler)
    : handler_(std::move(handler)),
      socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  if (::bind(socket_.get(), plain, size) != 0 ||
      ::listen(socket_.get(), 16) != 0 ||
      ::getsockname(socket_.get(), plain, &size) != 0) {
    throw std::runtime_error("cannot listen on 127.0.0.1");
  }
  port_ = ntohs(address.sin_port);
  listener_ = std::jthread([this] { Listen(); });
}

HttpServer::~HttpServer() {
  ends_ = true;
  listener_.join();
}

std::string HttpServer::address() const {
  return "http://127.0.0.1:" + std::to_string(port_);
}

std::vector<HttpRequest> HttpServer::Requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void HttpServer::Listen() {
  while (!ends_) {
    pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, /*timeout=*/20) != 1) continue;
    const int client = ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    connections_.emplace_back([this, client] { Serve(UniqueFd(client)); });
  }
  connections_.clear();
}

void HttpServer::Serve(UniqueFd connection) {
  const HttpRequest request = ReadRequest(connection.get());
  if (request.head.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  const HttpAnswer answer = handler_(request);
  Send(connection.get(), answer);
  if (!answer.reset) return;
  const linger hard{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(connection.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

void HttpServer::Send(int connection, const HttpAnswer& answer) {
  if (!SendText(connection, Head(answer))) return;
  std::string_view body = answer.body;
  if (answer.send >= 0) {
    body = body.substr(0, static_cast<std::size_t>(answer.send));
  }
  const std::size_t piece = answer.trickle.count() > 0 ? 1000 : body.size();
  do {
    for (std::size_t at = 0; at < body.size() && !ends_; at += piece) {
      if (!SendText(connection, body.substr(at, piece))) return;
      std::this_thread::sleep_for(answer.trickle);
    }
  } while (answer.endless && !ends_);
  const auto end = std::chrono::steady_clock::now() + answer.stall;
  while (!ends_ && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

HttpAnswer Serve(const std::string& body, const HttpRequest& request) {
  if (request.from < 0) return {.body = body};
  const auto from = static_cast<std::size_t>(request.from);
  const std::string all = std::to_string(body.size());
  if (from >= body.size()) {
    return {.status = "416 Range Not Satisfiable",
            .headers = {"Content-Range: bytes */" + all}};
  }
  return {.status = "206 Partial Content",
          .headers = {"Content-Range: bytes " + std::to_string(from) + "-" +
                      std::to_string(body.size() - 1) + "/" + all},
          .body = body.substr(from)};
}

}  // namespace dtrain

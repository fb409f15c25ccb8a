#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// A request as far as tests care.
struct HttpRequest {
  std::string path;
  std::int64_t from = -1;  // of "Range: bytes=FROM-"; -1: there was none
};

/// What is sent back, honest or not.
struct HttpAnswer {
  std::string status = "200 OK";
  std::vector<std::string> headers;
  std::string body;
  std::int64_t length = -1;  // Content-Length; -1: the body's; -2: none
  std::int64_t send = -1;    // bytes of the body before it breaks off
  bool reset = false;        // by RST, not by an orderly end
  bool endless = false;      // the body again and again
  std::chrono::milliseconds stall{0};    // silence before the end
  std::chrono::milliseconds trickle{0};  // between pieces of 1 kB
};

/// An HTTP server on 127.0.0.1 that does what a test tells it to.
class HttpServer {
 public:
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;

  explicit HttpServer(Handler handler);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  /// "http://127.0.0.1:PORT"
  std::string address() const;
  /// What came so far.
  std::vector<HttpRequest> Requests() const;

 private:
  void Listen();
  void Serve(UniqueFd connection);
  void Send(int connection, const HttpAnswer& answer);

  Handler handler_;
  UniqueFd socket_;
  int port_ = 0;
  std::atomic<bool> ends_{false};
  mutable std::mutex mutex_;
  std::vector<HttpRequest> requests_;
  std::vector<std::jthread> connections_;
  std::jthread listener_;
};

/// An honest answer: all of `body`, or from where on it was asked for.
HttpAnswer Serve(const std::string& body, const HttpRequest& request);

}  // namespace dtrain

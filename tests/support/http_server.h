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

/// The parts of a request that tests need.
struct HttpRequest {
  std::string path;
  std::int64_t from = -1;  // FROM of "Range: bytes=FROM-"; -1: no such header
  std::string head;        // request line and headers
  std::string body;

  /// Returns the value of a header, or "".
  std::string Header(const std::string& name) const;
};

/// A response, which may be wrong on purpose.
struct HttpAnswer {
  std::string status = "200 OK";
  std::vector<std::string> headers;
  std::string body;
  std::int64_t length = -1;  // Content-Length; -1: the body's; -2: no header
  std::int64_t send = -1;    // bytes sent before the connection ends
  bool reset = false;        // ends the connection by RST
  bool endless = false;      // repeats the body forever
  std::chrono::milliseconds stall{0};    // silence before the end
  std::chrono::milliseconds trickle{0};  // between pieces of 1 kB
};

/// An HTTP server on 127.0.0.1 whose responses are defined by a test.
class HttpServer {
 public:
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;

  explicit HttpServer(Handler handler);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  /// "http://127.0.0.1:PORT"
  std::string address() const;
  /// Returns the requests so far.
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

/// Returns a correct response: `body`, or the requested rest of it.
HttpAnswer Serve(const std::string& body, const HttpRequest& request);

}  // namespace dtrain

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/os/unique_fd.h"
#include "engine/serve/web_rules.h"

namespace dtrain {

class SignalWatch;

// Limits that keep one client from using up the memory or the time of others.
inline constexpr int kMaxConnections = 64;
inline constexpr int kMaxStreams = 48;  // the others remain for requests
inline constexpr std::size_t kMaxHeaderBytes = 16 << 10;
inline constexpr std::size_t kMaxBodyBytes = 64 << 10;
inline constexpr std::size_t kMaxUnreadBytes = 8 << 20;  // of a stream

/// An HTTP/1.1 server for a few clients of this machine, in one thread. A
/// request has to arrive within 10 s, a reply must be read within 60 s. More
/// connections than kMaxConnections wait until another one ends.
class WebServer {
 public:
  /// Returns the reply; nothing if `Reply` will be called with `exchange`.
  using Handler = std::function<std::optional<WebReply>(
      std::uint64_t exchange, const WebRequest& request)>;

  /// Accepts connections from `listener`. Throws Error(kFailed).
  WebServer(UniqueFd listener, Handler handler);
  ~WebServer();
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

  /// Serves until a signal arrives and returns its number. Calls `poll` four
  /// times a second. Throws what the handler, `poll` or a function given to
  /// WhenReadable throws.
  int Run(SignalWatch& signals, const std::function<void()>& poll);
  /// Serves what is ready now, without waiting, for tests.
  void RunOnce();

  /// Answers a request whose handler returned nothing. Does nothing if the
  /// client has gone.
  void Reply(std::uint64_t exchange, const WebReply& reply);
  /// Sends a part of an event stream to all of them. A client that has not read
  /// kMaxUnreadBytes is dropped.
  void SendToStreams(std::string_view event);
  int streams() const;
  /// Calls `ready` once, when `fd` is readable or at its end.
  void WhenReadable(int fd, std::function<void()> ready);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Version of the libevent library that this program is linked with.
std::string LibeventVersion();

/// Listens on a Unix socket of mode 0600. Replaces the socket of a server that
/// has ended. Throws Error(kUsage) if the path is too long or another file is
/// there, Error(kResources) if a server listens there.
UniqueFd ListenOnSocket(const std::filesystem::path& path);

}  // namespace dtrain

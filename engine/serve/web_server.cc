// evhttp of libevent 2.1 parses and answers. It has no limit of connections, no
// limit of the time that a request may take (only of the time between two bytes
// of it), and does not report that a connection has ended before its first
// request. So each connection's buffer is created here and kept by a second
// reference: evhttp removes the callbacks of a buffer when it closes the
// connection, which the sweep finds. The sweep ends a connection that is late
// by shutting its socket down, after which evhttp closes it.
//
// A request becomes an exchange with a number, by which the handler may answer
// later (Reply): the pointer of libevent may be gone by then, and OnClose
// removes its number. A stream is an exchange that stays open and gets chunks;
// a reader that does not keep up is ended, since its unread bytes are in our
// memory.
//
// One thread runs everything. evhttp has no notion of our deadlines, so Sweep,
// which the timer calls, compares them with the clock. Deadlines begin with a
// connection, with the first byte of each further request, and with a reply; in
// between, a connection is idle and evhttp's own timeout closes it.

#include "engine/serve/web_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>

#include "engine/base/error.h"
#include "engine/os/signals.h"
#include "engine/os/system_error.h"

namespace dtrain {
namespace {

using std::chrono::steady_clock;

constexpr auto kRequestTime = std::chrono::seconds(10);
constexpr auto kReplyTime = std::chrono::seconds(60);
constexpr auto kPollTime = std::chrono::milliseconds(250);
constexpr timeval kIdle{.tv_sec = 10, .tv_usec = 0};
constexpr int kBacklog = 128;
constexpr ev_uint16_t kAllMethods = EVHTTP_REQ_GET | EVHTTP_REQ_POST |
                                    EVHTTP_REQ_HEAD | EVHTTP_REQ_PUT |
                                    EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS |
                                    EVHTTP_REQ_TRACE | EVHTTP_REQ_PATCH;

const char* MethodName(evhttp_request* request) {
  switch (evhttp_request_get_command(request)) {
    case EVHTTP_REQ_GET:
      return "GET";
    case EVHTTP_REQ_POST:
      return "POST";
    case EVHTTP_REQ_HEAD:
      return "HEAD";
    case EVHTTP_REQ_PUT:
      return "PUT";
    case EVHTTP_REQ_DELETE:
      return "DELETE";
    case EVHTTP_REQ_OPTIONS:
      return "OPTIONS";
    case EVHTTP_REQ_TRACE:
      return "TRACE";
    case EVHTTP_REQ_CONNECT:
      return "CONNECT";
    case EVHTTP_REQ_PATCH:
      return "PATCH";
  }
  return "this method";
}

std::optional<std::string> Header(const evkeyvalq* headers, const char* name) {
  const char* value = evhttp_find_header(headers, name);
  if (value == nullptr) return std::nullopt;
  return value;
}

WebRequest ReadRequest(evhttp_request* request) {
  const evkeyvalq* headers = evhttp_request_get_input_headers(request);
  WebRequest read{.method = MethodName(request),
                  .origin = Header(headers, "Origin"),
                  .fetch_site = Header(headers, "Sec-Fetch-Site"),
                  .authorization = Header(headers, "Authorization"),
                  .content_type = Header(headers, "Content-Type").value_or("")};
  const char* address = evhttp_request_get_uri(request);
  const std::string_view target = address == nullptr ? "" : address;
  const std::size_t question = target.find('?');
  read.path = target.substr(0, question);
  if (question != target.npos) read.query = target.substr(question + 1);
  for (const evkeyval* one = headers->tqh_first; one != nullptr;
       one = one->next.tqe_next) {
    if (evutil_ascii_strcasecmp(one->key, "Host") == 0) {
      read.hosts.emplace_back(one->value);
    }
  }
  evbuffer* body = evhttp_request_get_input_buffer(request);
  read.body.resize(evbuffer_get_length(body));
  evbuffer_copyout(body, read.body.data(), read.body.size());
  return read;
}

using Buffer = std::unique_ptr<evbuffer, decltype(&evbuffer_free)>;

Buffer MakeBuffer() {
  Buffer made(evbuffer_new(), evbuffer_free);
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

void Add(std::string_view text, const Buffer& buffer) {
  if (evbuffer_add(buffer.get(), text.data(), text.size()) != 0) {
    throw std::bad_alloc();
  }
}

event* MakeEvent(event_base* base, int fd, short events,
                 event_callback_fn callback, void* argument) {
  event* made = event_new(base, fd, events, callback, argument);
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

}  // namespace

struct WebServer::State {
  struct Connection {
    bufferevent* buffer = nullptr;
    std::optional<steady_clock::time_point> deadline;
    bool replying = false;
  };

  explicit State(Handler given) : handler(std::move(given)) {}

  // Calls `function` for libevent, through whose frames no exception may pass:
  // the first one ends the loop, after which Loop throws it.
  template <typename Function>
  void Call(Function&& function) noexcept {
    try {
      function();
    } catch (...) {
      if (!thrown) thrown = std::current_exception();
      event_base_loopbreak(base);
    }
  }

  void Loop(int flags) {
    event_base_loop(base, flags);
    if (thrown) std::rethrow_exception(std::exchange(thrown, nullptr));
  }

  // True if evhttp has closed the connection.
  static bool IsClosed(const Connection& connection) {
    bufferevent_event_cb on_event = nullptr;
    bufferevent_getcb(connection.buffer, nullptr, nullptr, &on_event, nullptr);
    return on_event == nullptr;
  }

  static void ShutDown(const Connection& connection) {
    ::shutdown(bufferevent_getfd(connection.buffer), SHUT_RDWR);
  }

  // Forgets closed connections and ends late ones.
  void Sweep() {
    const auto now = steady_clock::now();
    for (auto one = connections.begin(); one != connections.end();) {
      if (IsClosed(*one)) {
        evbuffer_remove_cb(bufferevent_get_input(one->buffer), OnInput, &*one);
        bufferevent_decref(one->buffer);
        one = connections.erase(one);
        continue;
      }
      if (one->deadline && now >= *one->deadline) ShutDown(*one);
      ++one;
    }
    SetAccepting(connections.size() < kMaxConnections);
  }

  void SetAccepting(bool accept) {
    if (accept == accepting) return;
    accepting = accept;
    if (accept) {
      evconnlistener_enable(listener);
    } else {
      evconnlistener_disable(listener);
    }
  }

  // Creates the buffer of a connection that was just accepted.
  static bufferevent* OnConnection(event_base* base, void* self) noexcept {
    auto& state = *static_cast<State*>(self);
    bufferevent* buffer = nullptr;
    state.Call([&] {
      state.Sweep();
      Connection& connection = state.connections.emplace_back(
          Connection{.deadline = steady_clock::now() + kRequestTime});
      // Without this option evhttp would close the socket under our reference,
      // whose events would then read from the next connection of this number.
      buffer = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
      if (buffer == nullptr) return state.connections.pop_back();
      bufferevent_incref(buffer);
      connection.buffer = buffer;
      evbuffer_add_cb(bufferevent_get_input(buffer), OnInput, &connection);
      state.SetAccepting(state.connections.size() < kMaxConnections);
    });
    return buffer;
  }

  // Starts the time of a request at its first byte.
  static void OnInput(evbuffer* buffer, const evbuffer_cb_info* info,
                      void* self) noexcept {
    auto& connection = *static_cast<Connection*>(self);
    if (info->n_added == 0) return;
    if (!connection.deadline && !connection.replying) {
      connection.deadline = steady_clock::now() + kRequestTime;
    }
    // While a reply is sent, evhttp reads on but discards nothing.
    if (evbuffer_get_length(buffer) > 2 * (kMaxHeaderBytes + kMaxBodyBytes)) {
      ShutDown(connection);
    }
  }

  Connection* FindConnection(evhttp_request* request) {
    evhttp_connection* owner = evhttp_request_get_connection(request);
    if (owner == nullptr) return nullptr;
    const bufferevent* buffer = evhttp_connection_get_bufferevent(owner);
    const auto found = std::ranges::find_if(
        connections,
        [&](const Connection& one) { return one.buffer == buffer; });
    return found == connections.end() ? nullptr : &*found;
  }

  static void OnRequest(evhttp_request* request, void* self) noexcept {
    auto& state = *static_cast<State*>(self);
    if (Connection* connection = state.FindConnection(request)) {
      connection->deadline.reset();
      connection->replying = true;
      bufferevent_set_timeouts(connection->buffer, nullptr, &kIdle);
    }
    evhttp_connection* owner = evhttp_request_get_connection(request);
    evhttp_connection_set_closecb(owner, OnClose, self);
    state.Call([&] {
      const std::uint64_t exchange = ++state.last_exchange;
      state.exchanges[exchange] = request;
      const auto reply = state.handler(exchange, ReadRequest(request));
      if (reply) state.Send(exchange, *reply);
    });
  }

  static void OnClose(evhttp_connection* closed, void* self) noexcept {
    auto& state = *static_cast<State*>(self);
    // evhttp has detached a request that is still in use, and leaves it to us.
    const auto is_gone = [&](const auto& one) {
      const evhttp_connection* owner =
          evhttp_request_get_connection(one.second);
      if (owner == nullptr) evhttp_request_free(one.second);
      return owner == nullptr || owner == closed;
    };
    std::erase_if(state.exchanges, is_gone);
    std::erase_if(state.streams, is_gone);
  }

  // After the last byte of a reply: waits for the next request.
  static void OnSent(evhttp_request* request, void* self) noexcept {
    auto& state = *static_cast<State*>(self);
    Connection* connection = state.FindConnection(request);
    if (connection == nullptr) return;
    connection->replying = false;
    connection->deadline.reset();
    bufferevent_set_timeouts(connection->buffer, &kIdle, &kIdle);
    evbuffer* input = bufferevent_get_input(connection->buffer);
    if (evbuffer_get_length(input) > 0) {  // the next request is there
      connection->deadline = steady_clock::now() + kRequestTime;
    }
  }

  void Send(std::uint64_t exchange, const WebReply& reply) {
    const auto found = exchanges.find(exchange);
    if (found == exchanges.end()) return;
    const Buffer body = MakeBuffer();
    evhttp_request* request = found->second;
    exchanges.erase(found);
    Connection* connection = FindConnection(request);
    evkeyvalq* headers = evhttp_request_get_output_headers(request);
    for (const auto& [name, value] : SecurityHeaders()) {
      evhttp_add_header(headers, name.c_str(), value.c_str());
    }
    for (const auto& [name, value] : reply.headers) {
      evhttp_add_header(headers, name.c_str(), value.c_str());
    }
    evhttp_add_header(headers, "Content-Type", reply.type.c_str());
    if (reply.gzip) evhttp_add_header(headers, "Content-Encoding", "gzip");
    const bool has_body =
        evhttp_request_get_command(request) != EVHTTP_REQ_HEAD;
    if (has_body) {
      Add(reply.body, body);
    } else {
      evhttp_add_header(headers, "Content-Length",
                        std::to_string(reply.body.size()).c_str());
    }
    if (reply.stream && has_body) {
      streams[exchange] = request;
      evhttp_send_reply_start(request, reply.status, nullptr);
      evhttp_send_reply_chunk(request, body.get());
    } else {
      if (connection != nullptr) {
        connection->deadline = steady_clock::now() + kReplyTime;
      }
      evhttp_request_set_on_complete_cb(request, OnSent, this);
      evhttp_send_reply(request, reply.status, nullptr, body.get());
    }
  }

  static void OnSignal(evutil_socket_t, short, void* self) noexcept {
    auto& state = *static_cast<State*>(self);
    state.Call([&] {
      state.signal = state.signals->Read();
      if (state.signal != 0) event_base_loopbreak(state.base);
    });
  }

  static void OnTimer(evutil_socket_t, short, void* self) noexcept {
    auto& state = *static_cast<State*>(self);
    state.Call([&] {
      state.Sweep();
      if (state.poll) state.poll();
    });
  }

  static void OnReadable(evutil_socket_t, short, void* given) noexcept {
    const std::unique_ptr<Watch> watch(static_cast<Watch*>(given));
    event_free(watch->readable);
    watch->state.watches.remove(watch.get());
    watch->state.Call(watch->ready);
  }

  struct Watch {
    State& state;
    std::function<void()> ready;
    event* readable = nullptr;
  };

  Handler handler;
  UniqueFd listening;
  event_base* base = nullptr;
  evhttp* http = nullptr;
  evconnlistener* listener = nullptr;  // evhttp frees it
  event* timer = nullptr;
  bool accepting = true;
  std::list<Connection> connections;  // not moved: callbacks refer to them
  std::map<std::uint64_t, evhttp_request*> exchanges;  // not answered yet
  std::map<std::uint64_t, evhttp_request*> streams;
  std::list<Watch*> watches;
  std::uint64_t last_exchange = 0;
  SignalWatch* signals = nullptr;
  std::function<void()> poll;
  int signal = 0;
  std::exception_ptr thrown;  // by a callback
};

WebServer::WebServer(UniqueFd listener, Handler handler)
    : state_(std::make_unique<State>(std::move(handler))) {
  State& state = *state_;
  event_set_log_callback([](int, const char*) {});
  state.listening = std::move(listener);
  state.base = event_base_new();
  state.http = state.base == nullptr ? nullptr : evhttp_new(state.base);
  if (state.http != nullptr) {
    state.listener =
        evconnlistener_new(state.base, nullptr, nullptr, LEV_OPT_CLOSE_ON_EXEC,
                           kBacklog, state.listening.get());
  }
  if (state.listener == nullptr ||
      evhttp_bind_listener(state.http, state.listener) == nullptr) {
    throw Error(ErrorKind::kFailed, "cannot start the HTTP server");
  }
  evhttp_set_bevcb(state.http, State::OnConnection, &state);
  evhttp_set_gencb(state.http, State::OnRequest, &state);
  evhttp_set_allowed_methods(state.http, kAllMethods);
  evhttp_set_max_headers_size(state.http, kMaxHeaderBytes);
  evhttp_set_max_body_size(state.http, kMaxBodyBytes);
  evhttp_set_timeout_tv(state.http, &kIdle);
  state.timer =
      MakeEvent(state.base, -1, EV_PERSIST, State::OnTimer, state_.get());
  const timeval period{.tv_sec = 0, .tv_usec = kPollTime.count() * 1000};
  event_add(state.timer, &period);
}

WebServer::~WebServer() {
  State& state = *state_;
  for (State::Watch* watch : state.watches) {
    event_free(watch->readable);
    delete watch;
  }
  if (state.timer != nullptr) event_free(state.timer);
  if (state.http != nullptr) evhttp_free(state.http);
  for (State::Connection& one : state.connections) {
    evbuffer_remove_cb(bufferevent_get_input(one.buffer), State::OnInput, &one);
    bufferevent_decref(one.buffer);
  }
  if (state.base != nullptr) event_base_free(state.base);
}

int WebServer::Run(SignalWatch& signals, const std::function<void()>& poll) {
  State& state = *state_;
  state.signals = &signals;
  state.poll = poll;
  const std::unique_ptr<event, decltype(&event_free)> watch(
      MakeEvent(state.base, signals.fd(), EV_READ | EV_PERSIST, State::OnSignal,
                &state),
      event_free);
  event_add(watch.get(), nullptr);
  while (state.signal == 0) state.Loop(EVLOOP_ONCE);
  state.poll = nullptr;
  return state.signal;
}

void WebServer::RunOnce() { state_->Loop(EVLOOP_NONBLOCK); }

void WebServer::Reply(std::uint64_t exchange, const WebReply& reply) {
  state_->Send(exchange, reply);
}

void WebServer::SendToStreams(std::string_view event) {
  State& state = *state_;
  for (const auto& [id, request] : state.streams) {
    State::Connection* connection = state.FindConnection(request);
    if (connection == nullptr) continue;
    const std::size_t unread =
        evbuffer_get_length(bufferevent_get_output(connection->buffer));
    if (unread > kMaxUnreadBytes) {
      State::ShutDown(*connection);
      continue;
    }
    const Buffer chunk = MakeBuffer();
    Add(event, chunk);
    evhttp_send_reply_chunk(request, chunk.get());
  }
}

int WebServer::streams() const {
  return static_cast<int>(state_->streams.size());
}

void WebServer::WhenReadable(int fd, std::function<void()> ready) {
  auto watch = std::make_unique<State::Watch>(
      State::Watch{.state = *state_, .ready = std::move(ready)});
  state_->watches.push_back(watch.get());
  try {
    watch->readable =
        MakeEvent(state_->base, fd, EV_READ, State::OnReadable, watch.get());
  } catch (...) {
    state_->watches.pop_back();
    throw;
  }
  event_add(watch.release()->readable, nullptr);
}

std::string LibeventVersion() { return event_get_version(); }

UniqueFd ListenOnSocket(const std::filesystem::path& path) {
  sockaddr_un address{.sun_family = AF_UNIX};
  const std::string name = path.string();
  if (name.size() >= sizeof(address.sun_path)) {
    throw Error(ErrorKind::kUsage,
                "--socket: a path has at most " +
                    std::to_string(sizeof(address.sun_path) - 1) +
                    " bytes, this one " + std::to_string(name.size()) +
                    "; choose a shorter one");
  }
  name.copy(address.sun_path, name.size());
  const auto* place = reinterpret_cast<const sockaddr*>(&address);
  UniqueFd made(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made) ThrowSystemError("make a socket");
  struct stat there {};
  if (::lstat(name.c_str(), &there) == 0) {
    if (!S_ISSOCK(there.st_mode)) {
      throw Error(ErrorKind::kUsage, "--socket: " + name +
                                         " exists and is not a socket; choose "
                                         "another path");
    }
    const UniqueFd probe(
        ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (::connect(probe.get(), place, sizeof(address)) == 0 ||
        errno == EAGAIN) {
      throw Error(ErrorKind::kResources,
                  "--socket: a server already listens on " + name +
                      "; choose another path, or stop that server");
    }
    // Nothing listens there: a server that was killed has left it.
    if (errno == ECONNREFUSED) ::unlink(name.c_str());
  }
  // Permissions of a socket are set by bind(2); a chmod(2) after it would leave
  // a moment in which others may connect.
  const mode_t mask = ::umask(0177);  // no one else may connect, ever
  const int bound = ::bind(made.get(), place, sizeof(address));
  const int error = errno;
  ::umask(mask);
  if (bound != 0 || ::listen(made.get(), kBacklog) != 0) {
    throw Error(ErrorKind::kResources,
                "--socket: cannot listen on " + name + ": " +
                    ErrnoText(bound != 0 ? error : errno) +
                    "; choose another path");
  }
  return made;
}

}  // namespace dtrain
